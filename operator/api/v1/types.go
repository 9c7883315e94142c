package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the type's API group and version.
var GroupVersion = schema.GroupVersion{Group: "deviceplugin.intel.com", Version: "v1"}

// KindFpgaDevicePlugin is the kind of [FpgaDevicePlugin].
const KindFpgaDevicePlugin = "FpgaDevicePlugin"

// AddToScheme adds the type to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &FpgaDevicePlugin{}, &FpgaDevicePluginList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// FpgaDevicePluginSpec contains the settings of the plugin.
type FpgaDevicePluginSpec struct {
	// Image of the plugin. If it is empty, or if the last part of its path is intel-fpga-plugin, the operator's default
	// is used instead: see the condition ImageReplaced. If the image has neither a tag nor a digest, its tag is the
	// version of the operator.
	// +optional
	Image string `json:"image,omitempty"`

	// InitImage has no effect. The image of the plugin also contains the programs that are installed on the nodes.
	// +optional
	InitImage string `json:"initImage,omitempty"`

	// Mode of the plugin: af (default), region or regiondevel. Mode region also enables programming.
	// +kubebuilder:validation:Enum=af;region;regiondevel
	// +optional
	Mode string `json:"mode,omitempty"`

	// LogLevel of the plugin: 4 or more is debug, less is info.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LogLevel int `json:"logLevel,omitempty"`

	// NodeSelector selects the nodes of the plugin by their labels. If it is empty, all nodes match.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the plugin. If the list is empty, all taints are tolerated.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Values of the chart accelerator-device-plugin. They override the other fields.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// The types of conditions.
const (
	// ConditionAccepted is true if the chart accepts the spec and all of the plugin's objects have been applied.
	ConditionAccepted = "Accepted"
	// ConditionAvailable is true if a plugin with the current spec is ready on every matching node. It is false if the
	// spec isn't accepted.
	ConditionAvailable = "Available"
	// ConditionImageReplaced is true if spec.image is Intel's image, which isn't used.
	ConditionImageReplaced = "ImageReplaced"
	// ConditionInitImageUnneeded is true if spec.initImage is set even though it has no effect.
	ConditionInitImageUnneeded = "InitImageUnneeded"
)

// FpgaDevicePluginStatus describes the state of the plugin.
type FpgaDevicePluginStatus struct {
	// ControlledDaemonSet is the DaemonSet of the plugin.
	// +optional
	ControlledDaemonSet *corev1.ObjectReference `json:"controlledDaemonSet,omitempty"`

	// DesiredNumberScheduled is the number of nodes that match nodeSelector. Each of them should run the plugin.
	// +optional
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`

	// NumberReady is the number of these nodes on which the plugin is ready.
	// +optional
	NumberReady int32 `json:"numberReady"`

	// NodeNames lists the nodes on which a pod of the plugin runs.
	// +optional
	// +listType=atomic
	NodeNames []string `json:"nodeNames,omitempty"`

	// Devices is the number of devices on the nodes in nodeNames, as reported by their kubelets.
	// +optional
	Devices int64 `json:"devices"`

	// UnhealthyDevices is the number of these devices that are unhealthy. They are not allocated to new pods.
	// +optional
	UnhealthyDevices int64 `json:"unhealthyDevices"`

	// Conditions of the object: Accepted and Available. ImageReplaced and InitImageUnneeded exist only
	// while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FpgaDevicePlugin installs the device plugin on the matching nodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fdp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$')",message="metadata.name: want at most 53 lower-case letters, digits and dashes, with a letter or digit at both ends"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredNumberScheduled`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.numberReady`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.devices`
// +kubebuilder:printcolumn:name="Unhealthy",type=integer,JSONPath=`.status.unhealthyDevices`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node Selector",type=string,priority=1,JSONPath=`.spec.nodeSelector`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Available")].message`
type FpgaDevicePlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FpgaDevicePluginSpec   `json:"spec,omitzero"`
	Status FpgaDevicePluginStatus `json:"status,omitzero"`
}

// FpgaDevicePluginList is a list of FpgaDevicePlugins.
// +kubebuilder:object:root=true
type FpgaDevicePluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FpgaDevicePlugin `json:"items"`
}
