package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCertificates(t *testing.T) {
	ca, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	leaf := func(p Pair, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}

	serving := leaf(ca.Serving("kubernetes.default"))
	for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default"} {
		_, err := serving.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
		if err != nil {
			t.Errorf("the serving certificate is not good for %s: %v", name, err)
		}
	}
	client := leaf(ca.Client("admin", "system:masters"))
	_, err = client.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Errorf("the client certificate is not good: %v", err)
	}
	if diff := cmp.Diff([]string{"system:masters"}, client.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if client.Subject.CommonName != "admin" {
		t.Errorf("user %q, want admin", client.Subject.CommonName)
	}
}
