package names

import (
	"fmt"
	"regexp"
	"strings"
)

// quotaPrefix is the prefix of a resource's quota key, which the kubelet also validates.
const quotaPrefix = "requests."

var (
	domainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// ValidateNamespace returns an error if the namespace can't be used in resource names.
func ValidateNamespace(namespace string) error {
	if err := checkDomain(namespace); err != nil {
		return fmt.Errorf("namespace %.300q: %w", namespace, err)
	}
	return nil
}

// Validate returns an error if the kubelet wouldn't accept the name for an extended resource. The name must have the
// form DOMAIN/NAME, and the domain must not end in kubernetes.io. The rules are the same as in IsExtendedResourceName
// in k8s.io/kubernetes/pkg/apis/core/v1/helper.
func Validate(resource string) error {
	domain, name, ok := strings.Cut(resource, "/")
	if !ok {
		return fmt.Errorf("resource name %.300q is not of the form DOMAIN/NAME", resource)
	}
	if err := checkDomain(domain); err != nil {
		return fmt.Errorf("resource name %.300q: before the slash: %w", resource, err)
	}
	if len(name) > 63 || !nameForm.MatchString(name) {
		return fmt.Errorf("resource name %.300q: after the slash: want 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends", resource)
	}
	return nil
}

func checkDomain(domain string) error {
	if len(quotaPrefix+domain) > 253 || !domainForm.MatchString(domain) {
		return fmt.Errorf("want a lower-case DNS name of at most %d characters", 253-len(quotaPrefix))
	}
	if strings.HasSuffix(domain, "kubernetes.io") || strings.HasPrefix(domain, quotaPrefix) {
		return fmt.Errorf("names in %s are reserved", domain)
	}
	return nil
}
