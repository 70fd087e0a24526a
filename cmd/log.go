package main

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// quiet makes no error of what the API server refuses because the namespace is
// being deleted, events of its jobs above all: nobody can do anything about it.
type quiet struct{ logr.LogSink }

func (q quiet) Error(err error, message string, keysAndValues ...any) {
	switch {
	case !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		q.LogSink.Error(err, message, keysAndValues...)
	case q.Enabled(1):
		q.Info(1, message, append(keysAndValues, "error", err.Error())...)
	}
}

func (q quiet) WithValues(keysAndValues ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(keysAndValues...)}
}

func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }
