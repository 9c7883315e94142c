package pci_test

import (
	"fmt"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory/pci"
)

// FuzzParseTotal checks that the text contains the label and the total that ParseTotal returns.
func FuzzParseTotal(f *testing.F) {
	f.Add("DLP 0\nTOTAL_ERR_FATAL 1\n", "TOTAL_ERR_FATAL")
	f.Add("12\n", "")
	f.Add("TOTAL_ERR_FATAL\n", "TOTAL_ERR_FATAL")
	f.Add("\n\n -1", "")
	f.Fuzz(func(t *testing.T, s, label string) {
		n, err := pci.ParseTotal(s, label)
		if digits := fmt.Sprint(n); err == nil && (!strings.Contains(s, label) || !strings.Contains(s, digits)) {
			t.Errorf("%q in %q: %d", label, s, n)
		}
	})
}
