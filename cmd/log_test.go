package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestQuiet(t *testing.T) {
	terminating := fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}})
	for name, tc := range map[string]struct {
		err       error
		verbosity int
		want      string
	}{
		"another error":             {errors.New("no route"), 0, `"msg"="failed" "error"="no route" "of"="a" "job"="train"`},
		"no error":                  {nil, 0, `"msg"="failed" "error"=null "of"="a" "job"="train"`},
		"a namespace that goes":     {terminating, 0, ""},
		"and one looks for details": {terminating, 1, `"level"=1 "msg"="failed" "of"="a" "job"="train" "error"="writing: is being terminated"`},
	} {
		var lines []string
		sink := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{Verbosity: tc.verbosity}).GetSink()
		logr.New(quiet{sink}).WithName("events").WithValues("of", "a").Error(tc.err, "failed", "job", "train")
		want := ""
		if tc.want != "" {
			want = "events " + tc.want
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
