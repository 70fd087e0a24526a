package boot

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"pathways.domain/pathways-job/hack/localcluster/internal/pki"
)

// client speaks to the API server as admin. The few requests of a boot need no client library.
type client struct {
	server string
	http   *http.Client
}

func newClient(server string, ca *pki.Authority, admin pki.Pair) (*client, error) {
	cert, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	return &client{server: server, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots},
		},
	}}, nil
}

// healthy tells whether a component answers 200 on its health address.
func (c *client) healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// get tells whether the object at path exists.
func (c *client) exists(ctx context.Context, path string) bool {
	return c.healthy(ctx, c.server+path)
}

// create posts an object to a collection.
func (c *client) create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s: %s", path, resp.Status, answer)
	}
	return nil
}
