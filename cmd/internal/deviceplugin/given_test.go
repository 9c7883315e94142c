package deviceplugin_test

import (
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// given is the answer to Allocate for one container, without types of the kubelet.
type given struct {
	Envs, Annotations map[string]string // without the annotations that repeat Nodes for the kubelet's checkpoint
	Nodes             []string          // HOST:CONTAINER:PERMISSIONS
	CDI               []string          // names
}

// givenBy converts an answer of [simkubelet.Kubelet.Allocate].
func givenBy(answer *v1beta1.ContainerAllocateResponse) given {
	g := given{Envs: answer.Envs}
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
