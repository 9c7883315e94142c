package simkubelet

import (
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Given is the answer to Allocate for one container, without types of the kubelet.
type Given struct {
	Envs, Annotations map[string]string // without the annotations that repeat Nodes for the kubelet's checkpoint
	Nodes             []string          // HOST:CONTAINER:PERMISSIONS
	CDI               []string          // names
}

// GivenBy converts an answer of [Kubelet.Allocate].
func GivenBy(answer *v1beta1.ContainerAllocateResponse) Given {
	g := Given{Envs: answer.Envs}
	for key, value := range answer.Annotations {
		if strings.HasPrefix(key, "nodes.accelerator.b-com.com/") {
			continue
		}
		if g.Annotations == nil {
			g.Annotations = map[string]string{}
		}
		g.Annotations[key] = value
	}
	for _, node := range answer.Devices {
		g.Nodes = append(g.Nodes, node.HostPath+":"+node.ContainerPath+":"+node.Permissions)
	}
	for _, device := range answer.CdiDevices {
		g.CDI = append(g.CDI, device.Name)
	}
	return g
}
