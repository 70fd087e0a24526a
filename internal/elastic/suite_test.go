package elastic

import (
	"context"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/envtest"
)

// api is an administrator's client of the API server of the specs, without a
// cache.
var api client.WithWatch

// config is an administrator's of that API server.
var config *rest.Config

func TestElastic(t *testing.T) {
	RegisterFailHandler(Fail)
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	RunSpecs(t, "Elastic sub-controller")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	env, err := envtest.Start(ctx, envtest.Options{JobSet: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	config = rest.CopyConfig(env.Config)
	config.QPS = -1
	api, err = client.NewWithWatch(config, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(2*time.Minute))

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1.AddToScheme(s))
	utilruntime.Must(jobsetv1alpha2.AddToScheme(s))
	return s
}

// indexed answers the lists that go by this package's indexes from the API
// server, so that specs need no cache that lags behind. Like the manager's
// cache it holds only the pods of JobSets like ours.
type indexed struct{ client.Client }

func (c indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	want := map[string]string{}
	if o.FieldSelector != nil {
		for _, r := range o.FieldSelector.Requirements() {
			want[r.Field] = r.Value
		}
	}
	tests := maps.Collect(func(yield func(string, func(client.Object) []string) bool) {
		for _, i := range indexes {
			if _, ok := want[i.name]; ok && !yield(i.name, i.values) {
				return
			}
		}
	})
	if _, pods := list.(*corev1.PodList); pods {
		tests["ours"] = func(o client.Object) []string { return nonEmpty(o.GetLabels()[replicatedJobLabel]) }
	}
	o.FieldSelector = nil
	if err := c.Client.List(ctx, list, o); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	var kept []runtime.Object
	for _, item := range items {
		ok := true
		for name, values := range tests {
			found := false
			for _, v := range values(item.(client.Object)) {
				found = found || v == want[name] || name == "ours"
			}
			ok = ok && found
		}
		if ok {
			kept = append(kept, item)
		}
	}
	return meta.SetList(list, kept)
}

// cleanCluster removes what is not in a namespace of its own.
func cleanCluster(ctx context.Context) {
	GinkgoHelper()
	Expect(api.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed())
}
