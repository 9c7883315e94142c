package claims

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	kjson "sigs.k8s.io/json"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// The apiVersion and kind of an [AcceleratorConfig].
const (
	ConfigAPIVersion = draname.Driver + "/v1alpha1"
	ConfigKind       = "AcceleratorConfig"
)

// AcceleratorConfig is the configuration for this driver in a claim or DeviceClass. It is the value of
// opaque.parameters in an element of the config list.
type AcceleratorConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// AFUID is the AFU that devices are programmed with unless they already have it. It consists of 32 hexadecimal
	// digits in upper or lower case, with either all four dashes of a UUID or none. [ParseConfig] converts it to lower
	// case and removes the dashes.
	AFUID string `json:"afuId"`
}

// The formats of AFU IDs in configurations and in the inventory.
var (
	afuID       = regexp.MustCompile(`^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`)
	inventoryID = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// ParseConfig parses a configuration's opaque parameters. Unknown and duplicate fields are errors, because if a
// misspelled field were ignored, the pod would run with the wrong AFU.
func ParseConfig(raw []byte) (AcceleratorConfig, error) {
	if len(raw) > resourceapi.OpaqueParametersMaxLength {
		return AcceleratorConfig{}, fmt.Errorf("found %d bytes, want at most %d", len(raw), resourceapi.OpaqueParametersMaxLength)
	}
	var c AcceleratorConfig
	if err := unmarshal(raw, &c); err != nil {
		return AcceleratorConfig{}, fmt.Errorf("found %w, want an object with the fields apiVersion, kind and afuId", err)
	}
	for _, f := range []struct{ name, found, want string }{
		{"apiVersion", c.APIVersion, ConfigAPIVersion}, {"kind", c.Kind, ConfigKind},
	} {
		if f.found != f.want {
			return AcceleratorConfig{}, fmt.Errorf("%s: found %.100q, want %q", f.name, f.found, f.want)
		}
	}
	if !afuID.MatchString(c.AFUID) {
		return AcceleratorConfig{}, fmt.Errorf("afuId: found %.100q, want 32 hexadecimal digits, such as d8424dc4a4a3c413f89e433683f9040b", c.AFUID)
	}
	c.AFUID = strings.ToLower(strings.ReplaceAll(c.AFUID, "-", ""))
	if sysfs.AllOnes(c.AFUID) {
		return AcceleratorConfig{}, fmt.Errorf("afuId: found %q, want an id that is not all f, which a dead card has", c.AFUID)
	}
	return c, nil
}

// unmarshal decodes a single JSON value. Unknown and duplicate fields, field names in the wrong case, and data after
// the value are errors. Error messages are shortened, because they quote the input.
func unmarshal(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return errors.New(cut(err.Error()))
	}
	return nil
}

// cut shortens text for use in an error.
func cut(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// setting is a configuration that applies to one or more requests.
type setting struct {
	requests []string // empty means all requests
	config   AcceleratorConfig
}

// settingsOf returns this driver's settings in a claim's allocation. The classes' settings come first, then the claim's
// own. Later settings take precedence.
func settingsOf(all []resourceapi.DeviceAllocationConfiguration) ([]setting, error) {
	var ofClass, ofClaim []setting
	for i, entry := range all {
		if entry.Opaque == nil || entry.Opaque.Driver != draname.Driver {
			continue
		}
		place := fmt.Sprintf("allocation.devices.config[%d]", i)
		config, err := ParseConfig(entry.Opaque.Parameters.Raw)
		if err != nil {
			return nil, fmt.Errorf("%s.opaque.parameters: %w", place, err)
		}
		s := setting{entry.Requests, config}
		switch entry.Source {
		case resourceapi.AllocationConfigSourceClass:
			ofClass = append(ofClass, s)
		case resourceapi.AllocationConfigSourceClaim:
			ofClaim = append(ofClaim, s)
		default:
			return nil, fmt.Errorf("%s.source: found %.100q, want %s or %s", place, entry.Source,
				resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim)
		}
	}
	return append(ofClass, ofClaim...), nil
}

// afuFor returns the AFU that a request's devices must have, or "" if any AFU will do. request is REQUEST or
// REQUEST/SUBREQUEST. A setting for REQUEST applies to all its subrequests.
func afuFor(request string, all []setting) string {
	main, _, _ := strings.Cut(request, "/")
	for _, s := range slices.Backward(all) {
		if len(s.requests) == 0 || slices.Contains(s.requests, request) || slices.Contains(s.requests, main) {
			return s.config.AFUID
		}
	}
	return ""
}
