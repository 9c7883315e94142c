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

// Pod has the fields of a pod that admission reads. Other fields are not decoded: a [corev1.Pod] can
// take a hundred times the memory of its JSON, whose size the user chooses.
type Pod struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	Spec struct {
		InitContainers containers `json:"initContainers"` // with sidecars
		Containers     containers `json:"containers"`
	} `json:"spec"`
}

// Container has the fields of a container that admission reads.
type Container struct {
	Name      string          `json:"name"`
	Env       []corev1.EnvVar `json:"env"`
	Resources struct {
		Limits   corev1.ResourceList `json:"limits"`
		Requests corev1.ResourceList `json:"requests"`
	} `json:"resources"`
}

// maxObjects bounds the JSON objects of a list of containers: containers, variables and others. A
// pod that etcd can store, of 1.5 MiB, has fewer.
const maxObjects = 1 << 18

var errObjects = errors.New("too many JSON objects")

type containers []Container

// UnmarshalJSON implements [json.Unmarshaler].
func (c *containers) UnmarshalJSON(data []byte) error {
	if n := bytes.Count(data, []byte("{")); n > maxObjects {
		return fmt.Errorf("%w: found %d in a list of containers, want at most %d", errObjects, n, maxObjects)
	}
	return json.Unmarshal(data, (*[]Container)(c))
}

// ParsePod returns the pod of a request.
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

// clone returns a copy of a pod. The copy shares the variables of the pod.
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

// list is one of the lists of containers that a new pod may have.
type list struct {
	kind       string
	path       string // in the pod
	containers []Container
}

// lists returns the lists of containers. Ephemeral containers have no resources.
func (p *Pod) lists() []list {
	return []list{
		{"init container", "/spec/initContainers", p.Spec.InitContainers},
		{"container", "/spec/containers", p.Spec.Containers},
	}
}
