package admission

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Pod contains only the pod fields that admission reads. The others aren't decoded, because a [corev1.Pod] can take up
// a hundred times as much memory as its JSON, and users control the JSON's size.
type Pod struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	Spec struct {
		InitContainers containers `json:"initContainers"` // including sidecars
		Containers     containers `json:"containers"`
	} `json:"spec"`
}

// Container contains only the container fields that admission reads.
type Container struct {
	Name      string          `json:"name"`
	Env       []corev1.EnvVar `json:"env"`
	Resources resources       `json:"resources"`
}

type resources struct {
	Limits   corev1.ResourceList `json:"limits"`
	Requests corev1.ResourceList `json:"requests"`
}

// maxToken is the maximum length of a resource's name or quantity, in bytes of JSON. A name has at most 317 characters,
// but without a limit, decoding a quantity with a million digits would take tens of MiB.
const maxToken = 512

// UnmarshalJSON implements [json.Unmarshaler].
func (r *resources) UnmarshalJSON(data []byte) error {
	for begin, i := 0, 0; i < len(data); i++ {
		if bytes.IndexByte([]byte(",:{}[]"), data[i]) >= 0 {
			begin = i + 1
		} else if i-begin > maxToken {
			return fmt.Errorf("too long %w: found more than %d bytes in a name or quantity of a resource", errElements, maxToken)
		}
	}
	type plain resources // the same type without this method
	return json.Unmarshal(data, (*plain)(r))
}

// maxElements limits the number of elements in a list of containers. The members of all nested objects and the elements
// of all nested lists count. The largest realistic pods have a few thousand.
const maxElements = 1 << 15

var errElements = errors.New("elements in a list of containers")

type containers []Container

// UnmarshalJSON implements [json.Unmarshaler].
func (c *containers) UnmarshalJSON(data []byte) error {
	if *c != nil {
		return fmt.Errorf("%w: found the list twice, want it once", errElements)
	}
	if err := checkElements(data); err != nil {
		return err
	}
	return json.Unmarshal(data, (*[]Container)(c))
}

// checkElements returns an error if data, which must be valid JSON, has too many elements, or contains a list with null
// in it, which API servers never send.
func checkElements(data []byte) error {
	count, last := 0, byte(0) // last is the last byte that isn't white space
	for i := 0; i < len(data); i++ {
		switch b := data[i]; b {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case ',', '[', '{':
			if count++; count > maxElements {
				return fmt.Errorf("too many %w: want at most %d", errElements, maxElements)
			}
		case 'n':
			if last == ',' || last == '[' {
				return fmt.Errorf("null %w: want an object or a value", errElements)
			}
		}
		if i < len(data) {
			last = data[i]
		}
	}
	return nil
}

// ParsePod parses the pod in a request.
func ParsePod(raw []byte) (*Pod, error) {
	var p Pod
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	if p.APIVersion != "v1" || p.Kind != "Pod" {
		return nil, fmt.Errorf("found apiVersion %.40q, kind %.40q, want v1, Pod", p.APIVersion, p.Kind)
	}
	return &p, nil
}

// clone returns a copy of the pod. The copy shares the containers' variables with the original.
func (p *Pod) clone() *Pod {
	c := *p
	for _, list := range []*containers{&c.Spec.InitContainers, &c.Spec.Containers} {
		*list = slices.Clone(*list)
		for i := range *list {
			r := &(*list)[i].Resources
			r.Limits, r.Requests = maps.Clone(r.Limits), maps.Clone(r.Requests)
		}
	}
	return &c
}

// list is one of a new pod's lists of containers.
type list struct {
	kind       string
	path       string // JSON pointer in the pod
	containers []Container
}

// lists returns the pod's lists of containers, except for ephemeral containers, which don't have resources.
func (p *Pod) lists() []list {
	return []list{
		{"init container", "/spec/initContainers", p.Spec.InitContainers},
		{"container", "/spec/containers", p.Spec.Containers},
	}
}
