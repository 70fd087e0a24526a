package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "pathways.domain/pathways-job/api/v1"
)

func TestWaitUntilServed(t *testing.T) {
	var asked atomic.Int32
	servedFrom := int32(3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/"+v1.GroupVersion.String() || asked.Add(1) < servedFrom {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1.GroupVersion.String(),
		})
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	if err := waitUntilServed(context.Background(), config, time.Millisecond, time.Minute); err != nil || asked.Load() != servedFrom {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	servedFrom = 1 << 30
	err := waitUntilServed(context.Background(), config, time.Millisecond, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "whose CRD may not be installed") {
		t.Errorf("never served: %v", err)
	}
}
