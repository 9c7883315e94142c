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

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/offer/names"
)

// kind describes a kind of value: its name in the help text, and how it is parsed. Errors from parse have the form
// "want ALLOWED VALUES".
type kind[T any] struct {
	name  string
	parse func(string) (T, error)
}

// value is a [pflag.Value] that parses a string of the given kind and stores the result in *p.
type value[T any] struct {
	p *T
	kind[T]
}

// of sets *p to initial, and returns a value that can be used to change it.
func of[T any](p *T, initial T, k kind[T]) value[T] {
	*p = initial
	return value[T]{p, k}
}

func (v value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err == nil {
		*v.p = parsed
	}
	return err
}

func (v value[T]) String() string {
	if v.p == nil { // pflag calls String on the zero value
		return ""
	}
	return fmt.Sprint(*v.p)
}

func (v value[T]) Type() string { return v.name }

// text returns a kind whose values are the strings for which ok returns true.
func text(name, want string, ok func(string) bool) kind[string] {
	return kind[string]{name, func(s string) (string, error) {
		if !ok(s) {
			return "", errors.New("want " + want)
		}
		return s, nil
	}}
}

// optional returns a kind that accepts the empty string in addition to everything that k accepts.
func optional(k kind[string]) kind[string] {
	return kind[string]{k.name, func(s string) (string, error) {
		if s == "" {
			return "", nil
		}
		v, err := k.parse(s)
		if err != nil {
			err = fmt.Errorf("%w, or nothing", err)
		}
		return v, err
	}}
}

// path is the kind for paths. A relative path is resolved against the program's working directory.
var path = kind[string]{"path", func(s string) (string, error) {
	if s == "" || strings.ContainsRune(s, 0) {
		return "", errors.New("want a path")
	}
	return filepath.Abs(s)
}}

// socketPath is the kind for paths of Unix sockets. The kernel's limit is 108 bytes, including the terminating NUL.
var socketPath = kind[string]{"path", func(s string) (string, error) {
	s, err := path.parse(s)
	if err == nil && len(s) > maxSocketPath {
		err = fmt.Errorf("a path of %d bytes, want at most %d", len(s), maxSocketPath)
	}
	return s, err
}}

const maxSocketPath = 107

// absolute returns a kind for a path on the host. Relative paths aren't allowed, because this process may see the
// host's files below a different root.
func absolute(example string) kind[string] {
	return text("path", "an absolute path, such as "+example, func(s string) bool {
		return filepath.IsAbs(s) && !strings.ContainsRune(s, 0)
	})
}

// nodeForm matches node names, which have at most 253 characters. Source: IsDNS1123Subdomain in
// k8s.io/apimachinery/pkg/util/validation.
var nodeForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

var nodeName = text("name", "the name of a node, a lower-case DNS name of at most 253 characters",
	func(s string) bool { return len(s) <= 253 && nodeForm.MatchString(s) })

// conditionForm matches condition types. Source: Condition in k8s.io/apimachinery/pkg/apis/meta/v1.
var conditionForm = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// conditionType is a Node condition's type. Its length is limited because it is part of our field manager's name, which
// can't be longer than 128 characters.
var conditionType = text("type", "the type of a condition, such as accelerator.b-com.com/CardsHealthy, of at most 100 characters, and none of the kubelet's",
	func(s string) bool {
		kubelets := []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
		return len(s) <= 100 && conditionForm.MatchString(s) && !slices.Contains(kubelets, s)
	})

func oneOf(allowed ...string) kind[string] {
	return text("name", "one of "+strings.Join(allowed, ", "), func(s string) bool { return slices.Contains(allowed, s) })
}

var hostPort = text("host:port", "host:port with a port from 0 to 65535, such as 127.0.0.1:9480", func(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
})

var resourceName = name("domain/name", "DOMAIN/NAME, such as example.com/nlb", names.Validate)

// name returns a kind for names. check returns an error if a name is invalid.
func name(kindOf, want string, check func(string) error) kind[string] {
	return kind[string]{kindOf, func(s string) (string, error) {
		if err := check(s); err != nil {
			return "", fmt.Errorf("want %s: %w", want, err)
		}
		return s, nil
	}}
}

func number(least, most int) kind[int] {
	return kind[int]{"int", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}}
}

// functionIndex is a virtual function's index. A physical function has at most 65535 virtual functions.
var functionIndex = kind[string]{"int", func(s string) (string, error) {
	n, err := number(0, 65534).parse(s)
	return strconv.Itoa(n), err
}}

var onOff = kind[bool]{"bool", func(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, errors.New("want true or false")
	}
	return s == "true", nil
}}

// leastInterval is the shortest interval that is accepted, so that a typo can't cause a busy loop.
const leastInterval = 50 * time.Millisecond

func duration(least time.Duration) kind[time.Duration] {
	return kind[time.Duration]{"duration", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least {
			return 0, fmt.Errorf("want a duration of %s or more, such as 60s", least)
		}
		return d, nil
	}}
}

// offOr returns a kind for a duration, where 0 means off.
func offOr(least time.Duration) kind[time.Duration] {
	return kind[time.Duration]{"duration", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d != 0 && d < least {
			return 0, fmt.Errorf("want a duration of %s or more, such as 60s, or 0s for off", least)
		}
		return d, nil
	}}
}

// words is a list whose elements are separated by spaces in its text form.
type words []string

func (w words) String() string { return strings.Join(w, " ") }

// listType is the kind of flags that can be given several times.
const listType = "list"

// arguments returns a kind for a program's arguments. Whether they come from a flag, a variable or the file, they are
// separated by whitespace and appended to those in p.
func arguments(p *[]string) kind[words] {
	return kind[words]{listType, func(s string) (words, error) {
		fields := strings.Fields(s)
		odd := func(r rune) bool { return !unicode.IsPrint(r) }
		if !utf8.ValidString(s) || strings.ContainsFunc(strings.Join(fields, ""), odd) {
			return nil, errors.New("want arguments of printable characters, such as --store=/srv/intel.com/fpga")
		}
		return append(*p, fields...), nil
	}}
}

// familyNames is a list whose elements are separated by commas in its text form.
type familyNames []string

func (n familyNames) String() string { return strings.Join(n, ",") }

// familiesType is the kind of flags whose value is a list of families.
const familiesType = "families"

// familiesOf returns a kind for a list of known families. It puts them in the same order as in known.
func familiesOf(known []string) kind[familyNames] {
	return kind[familyNames]{familiesType, func(s string) (families familyNames, err error) {
		given := strings.Split(s, ",")
		for i := range given {
			given[i] = strings.TrimSpace(given[i])
		}
		for _, name := range known {
			if slices.Contains(given, name) {
				families = append(families, name)
			}
		}
		if len(families) != len(given) { // an unknown family, or one given twice
			return nil, fmt.Errorf("want at least one of %s, each once, separated by commas", strings.Join(known, ", "))
		}
		return families, nil
	}}
}

var (
	device = kind[string]{"address", sysfs.ParseDevice} // a card, or one of its ports
	card   = kind[string]{"address", sysfs.ParseCard}
)

// matching returns a kind for strings that match a regular expression. It converts values to the format that devices
// use: lower case, without dashes.
func matching(form, want string) kind[string] {
	expression := regexp.MustCompile(form)
	return kind[string]{"digits", func(s string) (string, error) {
		if !expression.MatchString(s) {
			return "", errors.New("want " + want)
		}
		return strings.ToLower(strings.ReplaceAll(s, "-", "")), nil
	}}
}

// vbnvForm matches a VBNV: printable ASCII characters without spaces. A card reserves 64 bytes for it, so it must be
// shorter than that.
var vbnvForm = regexp.MustCompile(`^[!-~]{1,63}$`)

var (
	// fourDigits is a PCI vendor or device id. The error asks for quotes, because a program that rewrites the file may
	// treat 0010 or 1e10 as a number.
	fourDigits = matching(`^[0-9A-Fa-f]{4}$`, `four hexadecimal digits in quotes, without 0x, such as "09c4"`)
	// twoIDs is a vendor id and a device id.
	twoIDs = matching(`^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$`,
		`four hexadecimal digits, a colon and four more, in quotes, such as "8086:1771"`)
	// vbnv is a shell's name. It allows the same characters as the inventory.
	vbnv = text("name", "the VBNV of a shell, such as xilinx_u250_gen3x16_xdma_shell_4_1",
		func(s string) bool { return vbnvForm.MatchString(s) })
	// guid is an AFU or interface id, with or without its four dashes.
	guid = matching(`^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`,
		"32 hexadecimal digits, such as d8424dc4a4a3c413f89e433683f9040b")
)
