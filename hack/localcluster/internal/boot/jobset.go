package boot

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	crdsPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	jobsetsPath = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
)

// installJobSet creates JobSet's CRD and webhook configurations from its own manifests.
func (c *client) installJobSet(ctx context.Context, manifests string, webhookPort int, ca []byte) error {
	crd, err := readObjects(filepath.Join(manifests, "crd.yaml"))
	if err != nil {
		return err
	}
	for _, object := range crd {
		if err := c.create(ctx, crdsPath, object); err != nil {
			return fmt.Errorf("creating JobSet's CRD: %w", err)
		}
	}
	webhooks, err := readObjects(filepath.Join(manifests, "webhooks.yaml"))
	if err != nil {
		return err
	}
	for _, object := range webhooks {
		collection, err := onLoopback(object, webhookPort, ca)
		if err != nil {
			return err
		}
		if err := c.create(ctx, "/apis/admissionregistration.k8s.io/v1/"+collection, object); err != nil {
			return fmt.Errorf("creating JobSet's webhooks: %w", err)
		}
	}
	return nil
}

// onLoopback turns a webhook configuration that points to a Service into one that points to a port of 127.0.0.1,
// and narrows its pod webhooks to the pods of JobSets, as JobSet's own installation does. It returns the
// configuration's collection.
func onLoopback(configuration map[string]any, port int, ca []byte) (collection string, err error) {
	var prefix string
	switch kind := configuration["kind"]; kind {
	case "MutatingWebhookConfiguration":
		collection, prefix = "mutatingwebhookconfigurations", "jobset-mutating"
	case "ValidatingWebhookConfiguration":
		collection, prefix = "validatingwebhookconfigurations", "jobset-validating"
	default:
		return "", fmt.Errorf("JobSet's webhook manifests hold a %v, which is no webhook configuration", kind)
	}
	configuration["metadata"] = map[string]any{"name": prefix + "-webhook-configuration"}
	webhooks, _ := configuration["webhooks"].([]any)
	for _, w := range webhooks {
		webhook, _ := w.(map[string]any)
		config, _ := webhook["clientConfig"].(map[string]any)
		service, _ := config["service"].(map[string]any)
		path, _ := service["path"].(string)
		if path == "" {
			return "", fmt.Errorf("webhook %v of JobSet's manifests has no path", webhook["name"])
		}
		webhook["clientConfig"] = map[string]any{
			"url":      fmt.Sprintf("https://127.0.0.1:%d%s", port, path),
			"caBundle": base64.StdEncoding.EncodeToString(ca),
		}
		if name, _ := webhook["name"].(string); name == "mpod.kb.io" || name == "vpod.kb.io" {
			webhook["objectSelector"] = map[string]any{"matchExpressions": []any{
				map[string]any{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"},
			}}
		}
	}
	return collection, nil
}

// jobsetAnswers tries a JobSet without creating it: it fails until the CRD is served and the webhooks answer.
func (c *client) jobsetAnswers(ctx context.Context) error {
	return c.create(ctx, jobsetsPath+"?dryRun=All", map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2",
		"kind":       "JobSet",
		"metadata":   map[string]any{"name": "probe"},
		"spec": map[string]any{"replicatedJobs": []any{map[string]any{
			"name": "probe",
			"template": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never",
				"containers":    []any{map[string]any{"name": "probe", "image": "probe"}},
			}}}},
		}}},
	})
}

// readObjects reads the documents of a YAML file.
func readObjects(name string) ([]map[string]any, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, doc := range bytes.Split(data, []byte("\n---")) {
		doc = bytes.TrimPrefix(bytes.TrimSpace(doc), []byte("---"))
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(doc, &object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		out = append(out, object)
	}
	return out, nil
}
