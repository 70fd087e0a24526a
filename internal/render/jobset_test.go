package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

// jobSetWebhooks are JobSet's own, served in this process. They look nothing
// up in a cluster as long as no volume claims are used.
var jobSetWebhooks = sync.OnceValues(func() (http.Handler, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(jobsetv1alpha2.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:0"}, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	if err := webhooks.Setup(mgr); err != nil {
		return nil, err
	}
	return mgr.GetWebhookServer().WebhookMux(), nil
})

// admitJobSet does what the API server does when the JobSet is created: CRD
// and JobSet's webhooks. The JobSet gets their defaults.
func admitJobSet(js *jobsetv1alpha2.JobSet) error {
	definition, err := jobSetCRD()
	if err != nil {
		return err
	}
	if err := definition.admitInto(js); err != nil {
		return err
	}
	before, err := json.Marshal(js)
	if err != nil {
		return err
	}
	response, err := review("/mutate-jobset-x-k8s-io-v1alpha2-jobset", before)
	if err != nil {
		return err
	}
	after := before
	if len(response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			return err
		}
		if after, err = patch.Apply(before); err != nil {
			return err
		}
	}
	if _, err := review("/validate-jobset-x-k8s-io-v1alpha2-jobset", after); err != nil {
		return err
	}
	*js = jobsetv1alpha2.JobSet{}
	return json.Unmarshal(after, js)
}

func review(path string, object []byte) (*admissionv1.AdmissionResponse, error) {
	handler, err := jobSetWebhooks()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("1"), Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind: metav1.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
		},
	})
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("answer of %s: %w: %s", path, err, recorder.Body)
	}
	if !answer.Response.Allowed {
		return nil, fmt.Errorf("JobSet's webhook: %s", answer.Response.Result.Message)
	}
	return answer.Response, nil
}
