package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/server/names"
)

// value is a setting of one type: how it is read, how it is shown.
type value[T any] struct {
	p     *T
	kind  string
	parse func(string) (T, error) // the error says what is allowed
	show  func(T) string
}

var _ pflag.Value = (*value[int])(nil)

func (v *value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.p = parsed
	return nil
}

func (v *value[T]) String() string {
	if v.p == nil { // pflag asks a zero value, too
		return ""
	}
	return v.show(*v.p)
}

func (v *value[T]) Type() string { return v.kind }

func text(p *string, kind string, check func(string) error) *value[string] {
	return &value[string]{p, kind, func(s string) (string, error) { return s, check(s) }, func(s string) string { return s }}
}

func path(p *string) *value[string] {
	return text(p, "path", func(s string) error {
		if s == "" || strings.ContainsRune(s, 0) {
			return errors.New("want a path")
		}
		return nil
	})
}

// absolute holds a path that some other root will be asked for.
func absolute(p *string) *value[string] {
	return text(p, "path", func(s string) error {
		if !filepath.IsAbs(s) || strings.ContainsRune(s, 0) {
			return errors.New("want an absolute path, such as /dev")
		}
		return nil
	})
}

// optionalAbsolute holds a path that does not depend on where the program is
// started, or "" for off.
func optionalAbsolute(p *string, such string) *value[string] {
	return text(p, "path", func(s string) error {
		if s != "" && !filepath.IsAbs(s) || strings.ContainsRune(s, 0) {
			return fmt.Errorf("want an absolute path, such as %s, or nothing", such)
		}
		return nil
	})
}

// optionalPath holds a path, or "" for off.
func optionalPath(p *string) *value[string] {
	return text(p, "path", func(s string) error {
		if strings.ContainsRune(s, 0) {
			return errors.New("want a path, or nothing")
		}
		return nil
	})
}

// nodeForm is what the API server takes for the name of a node: IsDNS1123Subdomain
// in k8s.io/apimachinery/pkg/util/validation, of 253 characters at most.
var nodeForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// nodeName holds the name of a node, or "" for off.
func nodeName(p *string) *value[string] {
	return text(p, "name", func(s string) error {
		if s != "" && (len(s) > 253 || !nodeForm.MatchString(s)) {
			return errors.New("want the name of a node, a lower-case DNS name of at most 253 characters, or nothing")
		}
		return nil
	})
}

func oneOf(p *string, allowed ...string) *value[string] {
	return text(p, "name", func(s string) error {
		if slices.Contains(allowed, s) {
			return nil
		}
		return fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
	})
}

func address(p *string) *value[string] {
	return text(p, "host:port", func(s string) error {
		if s == "" {
			return nil
		}
		_, port, err := net.SplitHostPort(s)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return errors.New(`want host:port with a port from 0 to 65535, such as 127.0.0.1:9480, or "" for off`)
		}
		return nil
	})
}

func number(p *int, least, most int) *value[int] {
	return &value[int]{p, "int", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}, strconv.Itoa}
}

// onOff gives fs a flag that is true when it stands without a value.
func onOff(fs *pflag.FlagSet, p *bool, name, usage string) {
	fs.VarPF(&value[bool]{p, "bool", func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, errors.New("want true or false")
		}
		return s == "true", nil
	}, strconv.FormatBool}, name, "", usage).NoOptDefVal = "true"
}

// leastInterval keeps a typing error from turning into a busy loop.
const leastInterval = 50 * time.Millisecond

func interval(p *time.Duration) *value[time.Duration] {
	return atLeast(p, leastInterval, "want a duration of 50ms or more, such as 60s")
}

func duration(p *time.Duration) *value[time.Duration] {
	return atLeast(p, 0, "want a duration of 0s or more, such as 10s")
}

func atLeast(p *time.Duration, least time.Duration, allowed string) *value[time.Duration] {
	return &value[time.Duration]{p, "duration", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least {
			return 0, errors.New(allowed)
		}
		return d, nil
	}, time.Duration.String}
}

// listType is the type of a flag that can be given several times.
const listType = "list"

// arguments holds the arguments of a program. White space separates them, in flags, variables
// and the file alike. Each value adds to those before.
func arguments(p *[]string) *value[[]string] {
	return &value[[]string]{p, listType, func(s string) ([]string, error) {
		fields := strings.Fields(s)
		if !utf8.ValidString(s) || strings.ContainsFunc(strings.Join(fields, ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil, errors.New("want arguments of printable characters, such as --store=/srv/intel.com/fpga")
		}
		return append(*p, fields...), nil
	}, func(all []string) string { return strings.Join(all, " ") }}
}

// resourceName holds a name that the kubelet takes for an extended resource.
func resourceName(p *string) *value[string] {
	return text(p, "domain/name", names.Validate)
}
