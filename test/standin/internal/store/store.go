// Package store is a small object store in memory that speaks as much of
// Cloud Storage's JSON API as the stand-in needs, and its client.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"
)

// Server holds objects in memory.
type Server struct {
	mu      sync.Mutex
	objects map[string][]byte
	delays  map[string]time.Duration
}

// NewServer makes an empty store.
func NewServer() *Server {
	return &Server{objects: map[string][]byte{}, delays: map[string]time.Duration{}}
}

// SetWriteDelay makes each write to a bucket take that long. A writer that
// goes away meanwhile has written nothing.
func (s *Server) SetWriteDelay(bucket string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays[bucket] = d
}

// Handler serves the JSON API, and PUT /standin/delay/{bucket}?for=20s for
// SetWriteDelay.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /upload/storage/v1/b/{bucket}/o", s.write)
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o/{object}", s.read)
	mux.HandleFunc("DELETE /storage/v1/b/{bucket}/o/{object}", s.remove)
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o", s.list)
	mux.HandleFunc("PUT /standin/delay/{bucket}", func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.SetWriteDelay(r.PathValue("bucket"), d)
	})
	return mux
}

func (s *Server) write(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // The writer has gone.
	}
	bucket := r.PathValue("bucket")
	s.mu.Lock()
	delay := s.delays[bucket]
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	name := r.URL.Query().Get("name")
	s.mu.Lock()
	s.objects[bucket+"/"+name] = data
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]string{"kind": "storage#object", "bucket": bucket, "name": name})
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	data, ok := s.objects[r.PathValue("bucket")+"/"+r.PathValue("object")]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "No such object", http.StatusNotFound)
		return
	}
	_, _ = w.Write(data)
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	delete(s.objects, r.PathValue("bucket")+"/"+r.PathValue("object"))
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	type item struct {
		Name string `json:"name"`
	}
	prefix := r.PathValue("bucket") + "/"
	items := []item{}
	s.mu.Lock()
	for key := range s.objects {
		if name, ok := strings.CutPrefix(key, prefix); ok && strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
			items = append(items, item{name})
		}
	}
	s.mu.Unlock()
	sort.Slice(items, func(i, j int) bool { return items[i].Name < items[j].Name })
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items})
}

// ErrNotFound is returned for an object that does not exist.
var ErrNotFound = errors.New("no such object")

// Client reads and writes gs:// locations at an emulator.
type Client struct {
	base   string
	client *http.Client
}

// NewClient talks to the emulator at the address that STORAGE_EMULATOR_HOST
// holds: host:port or http://host:port.
func NewClient(emulator string) *Client {
	if !strings.Contains(emulator, "://") {
		emulator = "http://" + emulator
	}
	return &Client{base: strings.TrimSuffix(emulator, "/"), client: &http.Client{}}
}

// split takes gs://bucket/path apart.
func split(location string) (bucket, name string, err error) {
	rest, ok := strings.CutPrefix(location, "gs://")
	bucket, name, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" || name == "" {
		return "", "", fmt.Errorf("%q is no gs://bucket/object", location)
	}
	return bucket, name, nil
}

// Write stores v as JSON.
func (c *Client) Write(ctx context.Context, location string, v any) error {
	bucket, name, err := split(location)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", location, err)
	}
	target := fmt.Sprintf("%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s", c.base, bucket, url.QueryEscape(name))
	_, err = c.do(ctx, http.MethodPost, target, string(data))
	if err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}

// Read decodes an object's JSON into v. The error is ErrNotFound where there
// is none.
func (c *Client) Read(ctx context.Context, location string, v any) error {
	target, err := c.object(location)
	if err != nil {
		return err
	}
	data, err := c.do(ctx, http.MethodGet, target+"?alt=media", "")
	if err != nil {
		return fmt.Errorf("read %s: %w", location, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %s: %w", location, err)
	}
	return nil
}

// Delete removes an object.
func (c *Client) Delete(ctx context.Context, location string) error {
	target, err := c.object(location)
	if err != nil {
		return err
	}
	if _, err := c.do(ctx, http.MethodDelete, target, ""); err != nil {
		return fmt.Errorf("delete %s: %w", location, err)
	}
	return nil
}

func (c *Client) object(location string) (string, error) {
	bucket, name, err := split(location)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/storage/v1/b/%s/o/%s", c.base, bucket, url.PathEscape(name)), nil
}

func (c *Client) do(ctx context.Context, method, target, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, ErrNotFound
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(data)))
	}
	return data, nil
}
