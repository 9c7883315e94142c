package offer

import (
	"fmt"
	"regexp"
	"strings"
)

// The kubelet checks a name as a quota key: with this in front of it.
const quotaPrefix = "requests."

var (
	domainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// ValidateNamespace checks that resources may be named within it.
func ValidateNamespace(namespace string) error {
	if strings.Contains(namespace, "/") {
		return fmt.Errorf("namespace %.300q: want a lower-case DNS name, without a slash", namespace)
	}
	return ValidateName(namespace + "/x")
}

// ValidateName checks that the name is one that the kubelet takes for an
// extended resource: DOMAIN/NAME, the domain not of kubernetes.io. The rules are
// those of IsExtendedResourceName in k8s.io/kubernetes/pkg/apis/core/v1/helper.
func ValidateName(resource string) error {
	domain, name, ok := strings.Cut(resource, "/")
	switch {
	case !ok:
		return fmt.Errorf("resource name %.300q is not of the form DOMAIN/NAME", resource)
	case len(quotaPrefix+domain) > 253 || !domainForm.MatchString(domain):
		return fmt.Errorf("resource name %.300q: the part before the slash must be a lower-case DNS name of at most %d characters", resource, 253-len(quotaPrefix))
	case strings.HasSuffix(domain, "kubernetes.io"), strings.HasPrefix(domain, quotaPrefix):
		return fmt.Errorf("resource name %.300q: names in %s are reserved", resource, domain)
	case len(name) > 63 || !nameForm.MatchString(name):
		return fmt.Errorf("resource name %.300q: the part after the slash must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends", resource)
	}
	return nil
}
