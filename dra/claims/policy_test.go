package claims_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/test/apiserver"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// apiServer is a real API server with the chart's policy for configurations.
type apiServer struct {
	kubernetes.Interface
	t *testing.T
}

// kinds lists the objects that can have a configuration: the resource, the path, and the text, in which %s stands for
// the configurations.
var kinds = []struct{ resource, path, at, text string }{
	{"resourceclaims", "/namespaces/default/resourceclaims", "spec.devices.config", `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":%q},"spec":{"devices":{` +
		`"requests":[{"name":"card","exactly":{"deviceClassName":"accelerator.b-com.com"}}],"config":[%s]}}}`},
	{"resourceclaimtemplates", "/namespaces/default/resourceclaimtemplates", "spec.spec.devices.config", `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":%q},"spec":{"spec":{"devices":{` +
		`"requests":[{"name":"card","exactly":{"deviceClassName":"accelerator.b-com.com"}}],"config":[%s]}}}}`},
	{"deviceclasses", "/deviceclasses", "spec.config", `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":%q},"spec":{"config":[%s]}}`},
}

// longFields are 16 fields of 600 bytes.
var longFields = func() string {
	var fields []string
	for i := range 16 {
		fields = append(fields, fmt.Sprintf("%q:1", strings.Repeat(string(rune('a'+i)), 600)))
	}
	return "{" + strings.Join(fields, ",") + "}"
}()

// configOf returns a configuration for a driver.
func configOf(driver, parameters string) string {
	if parameters == "" {
		return fmt.Sprintf(`{"opaque":{"driver":%q}}`, driver)
	}
	return fmt.Sprintf(`{"opaque":{"driver":%q,"parameters":%s}}`, driver, parameters)
}

func newAPIServer(t *testing.T) *apiServer {
	return &apiServer{kubernetes.NewForConfigOrDie(apiserver.Start(t)), t}
}

// apply creates the policy, with its binding, and waits until the API server uses it.
func (s *apiServer) apply() {
	s.t.Helper()
	text := must.Value(os.ReadFile("../../deploy/manifests/accelerator-dra-driver.yaml"))(s.t)
	made := 0
	for _, object := range strings.Split(string(text), "\n---\n") {
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(object), &policy); err != nil || !strings.HasSuffix(policy.Name, "-config") {
			continue
		}
		switch policy.Kind {
		case "ValidatingAdmissionPolicy":
			must.Value(s.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(s.t.Context(), &policy, metav1.CreateOptions{}))(s.t)
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			must.Succeed(s.t, yaml.UnmarshalStrict([]byte(object), &binding))
			must.Value(s.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(s.t.Context(), &binding, metav1.CreateOptions{}))(s.t)
		}
		made++
	}
	if made != 2 {
		s.t.Fatalf("found %d objects of the policy, want 2", made)
	}
	deadline := time.After(time.Minute)
	for {
		err := s.create(0, "try", configOf("accelerator.b-com.com", "{}"))
		if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			s.t.Fatalf("%v, want the policy to refuse it within a minute", err)
		}
	}
}

// create tries to create an object of a kind with these configurations, without storing it.
func (s *apiServer) create(kind int, name string, configs ...string) error {
	return s.send("POST", kinds[kind].path+"?dryRun=All", fmt.Sprintf(kinds[kind].text, name, strings.Join(configs, ",")))
}

func (s *apiServer) send(verb, path, body string) error {
	contentType := "application/json"
	if verb == "PATCH" {
		contentType = "application/merge-patch+json"
	}
	return s.ResourceV1().RESTClient().Verb(verb).RequestURI("/apis/resource.k8s.io/v1"+path).SetHeader("Content-Type", contentType).
		Body([]byte(body)).Do(s.t.Context()).Error()
}

// A real API server with the chart's policy refuses a configuration, when its object is created, exactly if the driver
// would refuse it. The two messages are the same.
func TestConfigPolicy(t *testing.T) {
	s := newAPIServer(t)
	old := configOf("accelerator.b-com.com", `{"afuId":"older than the policy"}`)
	for _, k := range kinds {
		must.Succeed(t, s.send("POST", k.path, fmt.Sprintf(k.text, "old", old)))
	}
	s.apply()
	for i, k := range kinds {
		for _, tc := range configs {
			t.Run(k.resource+" "+tc.name, func(t *testing.T) {
				want := tc.other
				if want == "" {
					want = tc.want
				}
				err := s.create(i, "new", configOf("accelerator.b-com.com", tc.raw))
				switch {
				case want == "" || want == created:
					if err != nil {
						t.Errorf("error %v, want it created", err)
					}
				case err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000:
					t.Errorf("error %v, want one with %s", err, want)
				case tc.other == "" && !strings.Contains(err.Error(), k.at+"[0].opaque.parameters: "):
					t.Errorf("error %v, want one with the place", err)
				}
			})
		}
		good, bad := configOf("accelerator.b-com.com", configs[0].raw), configOf("accelerator.b-com.com", `{"mode":"fast"}`)
		compare.NoError(t, k.resource+": another driver", s.create(i, "new", good, configOf("gpu.example.com", `{"mode":"fast"}`), good))
		err := s.create(i, "new", good, configOf("gpu.example.com", `{"mode":"fast"}`), bad)
		compare.Error(t, k.resource, k.at+"[2].opaque.parameters: found unknown field \"mode\"", err)
		compare.NoError(t, k.resource+": without configurations", s.create(i, "new"))
		// The costs of the expressions are limited: the largest object is refused, but not with an error of the policy.
		for _, parameters := range []string{
			`{"a":1` + manyFields + `}`, `{"` + strings.Repeat("a", 10000) + `":1}`, strings.Replace(configs[0].raw, afu, strings.Repeat("a", 10000), 1), longFields,
		} {
			large := slices.Repeat([]string{configOf("accelerator.b-com.com", parameters)}, resourceapi.DeviceConfigMaxSize)
			compare.Error(t, k.resource+": largest object", "opaque.parameters: ", s.create(i, "new", large...))
		}
		// Other parts of objects that are older than the policy can be changed.
		compare.NoError(t, k.resource+": label of an old object", s.send("PATCH", k.path+"/old", `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/x"]}}`))
	}
	class := func(configs ...string) error {
		return s.send("PATCH", "/deviceclasses/old", `{"spec":{"config":[`+strings.Join(configs, ",")+`]}}`)
	}
	good := configOf("accelerator.b-com.com", configs[0].raw)
	compare.NoError(t, "class with an old configuration and a new one", class(old, good))
	compare.Error(t, "class with a bad configuration", `spec.config[1].opaque.parameters: found unknown field "mode"`, class(good, configOf("accelerator.b-com.com", `{"mode":"fast"}`)))

	// The driver reads what the API server has stored. It refuses nothing that could be created, except a field that
	// occurs twice.
	for _, tc := range configs {
		body := fmt.Sprintf(kinds[0].text, "stored", configOf("accelerator.b-com.com", tc.raw))
		if err := s.send("POST", kinds[0].path, body); err != nil {
			continue
		}
		claim := must.Value(s.ResourceV1().ResourceClaims("default").Get(t.Context(), "stored", metav1.GetOptions{}))(t)
		raw := claim.Spec.Devices.Config[0].Opaque.Parameters.Raw
		if _, err := claims.ParseConfig(raw); (err != nil) != (tc.other == created) {
			t.Errorf("%s: stored as %s: error %v of the driver", tc.name, raw, err)
		}
		must.Succeed(t, s.ResourceV1().ResourceClaims("default").Delete(t.Context(), "stored", metav1.DeleteOptions{}))
	}

	policy := must.Value(s.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{}))(t)
	var warnings bytes.Buffer
	for _, p := range policy.Items {
		if p.Status.TypeChecking != nil && len(p.Status.TypeChecking.ExpressionWarnings) > 0 {
			_ = json.NewEncoder(&warnings).Encode(p.Status.TypeChecking.ExpressionWarnings)
		}
	}
	compare.Equal(t, "warnings of the API server", "", warnings.String())
}
