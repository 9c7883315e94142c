package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

const (
	certManager       = "cert-manager" // the release's name and namespace
	certManagerPrefix = "adp.e2e/" + certManager + "/" + certManager + "-"
	certificateSecret = "accelerator-operator-cert"
)

// certManagerImages lists the images of cert-manager's components, with the names that its chart uses.
var certManagerImages = []cluster.Image{
	{Name: certManagerPrefix + "controller:e2e", Args: []string{"controller"}, User: "1000"},
	{Name: certManagerPrefix + "webhook:e2e", Args: []string{"webhook"}, User: "1000"},
	{Name: certManagerPrefix + "cainjector:e2e", Args: []string{"cainjector"}, User: "1000"},
}

// issuers defines a self-signed issuer, and a CA issuer whose CA comes from the self-signed issuer.
const issuers = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self-signed}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca}
spec:
  isCA: true
  commonName: accelerators
  duration: 87600h
  secretName: ca
  privateKey: {algorithm: ECDSA}
  issuerRef: {name: self-signed}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca}
spec:
  ca: {secretName: ca}
`

// installCertManager installs cert-manager with its chart, and creates the issuers. It waits for cert-manager's own
// webhook, which doesn't work until the CA injector has set its CA.
func (s *scene) installCertManager() {
	chart := s.glob(filepath.Join(s.certManager, certManager+"-*.tgz"))
	s.step("helm install %s", filepath.Base(chart))
	s.cleanups = append(s.cleanups, func() {
		s.must("helm", "uninstall", certManager, "--namespace", certManager, "--ignore-not-found", "--wait", "--timeout", "1m")
		s.mustKubectl("delete", "namespace", certManager, "--wait=false")
		s.mustKubectl("delete", "secrets", "--all", "--namespace", operatorNamespace)
	})
	s.must("helm", "install", certManager, chart, "--namespace", certManager, "--create-namespace", "--wait", "--timeout", "1m",
		"--set", "crds.enabled=true,crds.keep=false,startupapicheck.enabled=false,prometheus.enabled=false",
		"--set", "imageRegistry=adp.e2e,imageNamespace="+certManager+",image.tag=e2e,webhook.image.tag=e2e,cainjector.image.tag=e2e")
	s.step("issuers, one of them with a CA")
	if _, err := s.Client.CoreV1().Namespaces().Get(s.ctx, operatorNamespace, metav1.GetOptions{}); err != nil {
		s.must("kubectl", "create", "namespace", operatorNamespace)
	}
	await(s, "kubectl apply", func() (bool, error) {
		_, err := s.kubectl(issuers, "apply", "--namespace", operatorNamespace, "--filename", "-")
		return err == nil, err
	}, true)
}

// issued describes the certificate that cert-manager last issued for the operator.
type issued struct {
	Ready    string
	Revision int
	CA       bool // whether the API server trusts the CA in the Secret
}

// issued returns the state of the operator's Certificate.
func (s *scene) issued() (issued, error) {
	var i issued
	out, err := s.Run(s.ctx, "kubectl", "get", "certificate", operator, "--namespace", operatorNamespace, "--output",
		`jsonpath={.status.revision} {.status.conditions[?(@.type=="Ready")].status}`)
	if err != nil {
		return i, err
	}
	if _, err := fmt.Sscan(out, &i.Revision, &i.Ready); err != nil {
		return i, fmt.Errorf("status %q: %w", out, err)
	}
	ca, err := s.certificateIn(certificateSecret, "ca.crt")
	if err != nil {
		return i, err
	}
	all, err := s.trusted()
	i.CA = slices.ContainsFunc(all, ca.Equal)
	return i, err
}

// renewed waits until this revision of the certificate has been issued and the API server trusts its CA.
func (s *scene) renewed(revision int) {
	await(s, "certificate", s.issued, issued{"True", revision, true})
}

// allServe waits until both of the operator's replicas serve the certificate in the Secret, and returns the
// certificate's age.
func (s *scene) allServe() time.Duration {
	var leaf *x509.Certificate
	await(s, "replicas with the certificate in the Secret", func() (n int, err error) {
		if leaf, err = s.certificateIn(certificateSecret, corev1.TLSCertKey); err != nil {
			return 0, err
		}
		served, err := s.served()
		for _, c := range served {
			if c.Equal(leaf) {
				n++
			}
		}
		return n, err
	}, 2)
	return time.Since(leaf.NotBefore)
}

// whileRenewing calls do, which renews the certificate, and waits until both replicas serve the latest one. Meanwhile,
// it creates pods, and verifies each replica's certificate against the CAs in the webhook's caBundle ten times a
// second. (The API server itself verifies the certificate only when it opens a new connection.)
func (s *scene) whileRenewing(do func()) {
	verified, failures := 0, []error(nil)
	s.noneRefused(s.whileCreating("nlb0", func() {
		s.during(func() {
			do()
			s.step("  both replicas serve it after %.0f s", s.allServe().Seconds())
		}, func(ctx context.Context) {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				n, err := s.verify()
				verified += n
				if err != nil {
					failures = append(failures, err)
				}
				<-tick.C
			}
		})
	}))
	s.step("  %d certificates verified, %d failures", verified, len(failures))
	if len(failures) > 0 {
		s.failf("found certificates that the API server does not trust: %w", failures[0])
	}
}

// verify checks each replica's certificate against the CAs in the webhook's caBundle, and returns the number of
// certificates.
func (s *scene) verify() (int, error) {
	hook, err := s.webhook()
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(hook.ClientConfig.CABundle)
	served, err := s.served()
	if err != nil {
		return 0, err
	}
	for _, c := range served {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: operatorService}); err != nil {
			return 0, err
		}
	}
	return len(served), nil
}

// mappingCertManager shows that cert-manager can issue the webhook's certificate, and that pods can be created while it
// renews the certificate.
func mappingCertManager(s *scene) {
	s.installCertManager()
	s.step("helm install the operator, with certificates of cert-manager")
	s.installOperator("--set", "certificates.source=certManager,certificates.issuer.name=ca")
	s.renewed(1)
	s.allServe()
	secrets := must(s.Client.CoreV1().Secrets(operatorNamespace).List(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + operatorSecret}))
	same(s, "Secrets of the operator's own CA", len(secrets.Items), 0)
	s.apply(mapping{"nlb0", "region", afuID, interfaceID})
	s.mappingsReady("af", "nlb0")
	s.step("a pod is created: mutated")
	pod := must(s.dryRun(s.pod("one", domain+"nlb0", 1)))
	same(s, "units of the name", requestedUnits(pod.Spec.Containers[0])[domain+"nlb0"], 0)
	s.step("the Secret is deleted; its certificate is renewed in time, twice")
	s.whileRenewing(func() {
		// The new renewal time takes effect only with the next certificate, so delete the Secret to have one issued
		// now.
		s.renewBefore(`"1h"`, `"59m30s"`)
		s.check(s.Client.CoreV1().Secrets(operatorNamespace).Delete(s.ctx, certificateSecret, metav1.DeleteOptions{}))
		for revision := 2; revision <= 4; revision++ {
			s.renewed(revision)
		}
		s.renewBefore("null", "null")
	})
	s.step("another issuer, without a CA: its certificate is trusted beside the CA")
	s.whileRenewing(func() {
		must(s.helmOperator("upgrade", "--reset-then-reuse-values", "--set", "certificates.issuer.name=self-signed"))
		s.renewed(5)
	})
	same(s, "trusted certificates", s.countTrusted(), 2)
	s.step("the CA is removed, as docs/mappings.md says")
	s.noneRefused(s.whileCreating("nlb0", func() {
		ca := s.must("kubectl", "--namespace", operatorNamespace, "get", "secret", certificateSecret, "--output", `jsonpath={.data.ca\.crt}`)
		s.must("kubectl", "patch", "mutatingwebhookconfiguration", operatorNamespace+"-"+operator, "--type", "json",
			"--patch", "[{op: replace, path: /webhooks/0/clientConfig/caBundle, value: "+ca+"}]")
		s.wait(2 * time.Second)
	}))
	same(s, "trusted certificates", s.countTrusted(), 1)
}

func (s *scene) countTrusted() int {
	all := must(s.trusted())
	return len(all)
}

// renewBefore sets the Certificate's duration and renewal time, both given as JSON.
func (s *scene) renewBefore(duration, before string) {
	s.must("kubectl", "patch", "certificate", operator, "--namespace", operatorNamespace, "--type", "merge",
		"--patch", `{"spec":{"duration":`+duration+`,"renewBefore":`+before+`}}`)
}
