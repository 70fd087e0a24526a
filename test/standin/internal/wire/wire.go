// Package wire is what the parts of the stand-in say to each other: JSON over
// HTTP, on the ports that the real ones use for gRPC.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Codes of errors, named as JAX names them.
const (
	// Unavailable: a slice is down, or its workers are being suspended.
	Unavailable = "UNAVAILABLE"
	// DataLoss: a worker does not hold the data that is asked for.
	DataLoss = "DATA_LOSS"
	// Aborted: the caller's session or identity is no longer valid.
	Aborted = "ABORTED"
	// FailedPrecondition: the job is not set up for this.
	FailedPrecondition = "FAILED_PRECONDITION"
	// InvalidArgument: the request can never work.
	InvalidArgument = "INVALID_ARGUMENT"
)

// Error is an error that crosses the wire.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Slice that is at fault; nil where none is.
	Slice *int `json:"slice,omitempty"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an Error without a slice.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Code returns the code of an error: of one that did not come over the wire,
// such as a refused connection, Unavailable.
func Code(err error) string {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return Unavailable
}

// NewClient makes an HTTP client that notices a dead host soon.
func NewClient() *http.Client {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     10 * time.Second,
	}}
}

// Post sends in to http://host/path and decodes the answer into out, which
// may be nil.
func Post(ctx context.Context, client *http.Client, host, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request for %s: %w", path, err)
	}
	return do(ctx, client, http.MethodPost, "http://"+host+path, bytes.NewReader(body), out)
}

// Get reads http://host/path into out.
func Get(ctx context.Context, client *http.Client, host, path string, out any) error {
	return do(ctx, client, http.MethodGet, "http://"+host+path, nil, out)
}

func do(ctx context.Context, client *http.Client, method, url string, body io.Reader, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("make a request for %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &Error{}
		if json.Unmarshal(data, e) == nil && e.Code != "" {
			return e
		}
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", url, err)
	}
	return nil
}

// Handle serves one path. The caller's IP address is given to fn.
func Handle[In, Out any](mux *http.ServeMux, pattern string, fn func(ctx context.Context, peer string, in In) (Out, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				reply(w, http.StatusBadRequest, Errorf(InvalidArgument, "decode the request: %v", err))
				return
			}
		}
		peer, _, _ := net.SplitHostPort(r.RemoteAddr)
		out, err := fn(r.Context(), peer, in)
		if err != nil {
			e := &Error{}
			if !errors.As(err, &e) {
				e = Errorf(Unavailable, "%v", err)
			}
			reply(w, http.StatusConflict, e)
			return
		}
		reply(w, http.StatusOK, out)
	})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The caller has gone; nobody is left to tell.
}

// Listen opens the TCP ports; port 0 picks a free one. All or none are open
// afterwards.
func Listen(ports ...int) ([]net.Listener, error) {
	var open []net.Listener
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			for _, o := range open {
				_ = o.Close()
			}
			return nil, fmt.Errorf("listen: %w", err)
		}
		open = append(open, l)
	}
	return open, nil
}

// Port returns the port of a listener.
func Port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
