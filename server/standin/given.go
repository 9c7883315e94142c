package standin

import "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

// Given is what one container got, for tests that do not speak the kubelet's
// language.
type Given struct {
	Envs, Annotations map[string]string
	Nodes             []string // HOST:CONTAINER:PERMISSIONS
	CDI               []string // names
}

// GivenBy reads an answer of [Kubelet.Allocate].
func GivenBy(answer *v1beta1.ContainerAllocateResponse) Given {
	g := Given{Envs: answer.Envs, Annotations: answer.Annotations}
	for _, node := range answer.Devices {
		g.Nodes = append(g.Nodes, node.HostPath+":"+node.ContainerPath+":"+node.Permissions)
	}
	for _, device := range answer.CdiDevices {
		g.CDI = append(g.CDI, device.Name)
	}
	return g
}
