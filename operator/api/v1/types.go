package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the type.
var GroupVersion = schema.GroupVersion{Group: "deviceplugin.intel.com", Version: "v1"}

// KindFpgaDevicePlugin is the kind of [FpgaDevicePlugin].
const KindFpgaDevicePlugin = "FpgaDevicePlugin"

// AddToScheme adds the type to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &FpgaDevicePlugin{}, &FpgaDevicePluginList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// FpgaDevicePluginSpec has the settings of the plugins.
type FpgaDevicePluginSpec struct {
	// Image of the plugins. Empty, or an image whose last path component is intel-fpga-plugin: that
	// of the operator's version, see the condition ImageReplaced.
	// +optional
	Image string `json:"image,omitempty"`

	// InitImage has no effect: the image of the plugins has the programs for the nodes.
	// +optional
	InitImage string `json:"initImage,omitempty"`

	// Mode of the plugins: af (default), region or regiondevel. Mode region also turns programming on.
	// +kubebuilder:validation:Enum=af;region;regiondevel
	// +optional
	Mode string `json:"mode,omitempty"`

	// LogLevel of the plugins: from 4 on debug, below info.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LogLevel int `json:"logLevel,omitempty"`

	// NodeSelector has the labels of the nodes that get a plugin.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the plugins. Empty: all taints are tolerated.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Values of the chart accelerator-device-plugin. They win over the other fields.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// The types of conditions.
const (
	// ConditionAccepted is true if the objects of the plugins follow from the spec and are applied.
	ConditionAccepted = "Accepted"
	// ConditionAvailable is true if each node that is wanted has a ready plugin of the current spec,
	// so it is false if that is not accepted.
	ConditionAvailable = "Available"
	// ConditionImageReplaced is true if spec.image is Intel's, and another image is used.
	ConditionImageReplaced = "ImageReplaced"
	// ConditionInitImageUnneeded is true if spec.initImage is set: it has no effect.
	ConditionInitImageUnneeded = "InitImageUnneeded"
)

// FpgaDevicePluginStatus is the state of the plugins.
type FpgaDevicePluginStatus struct {
	// ControlledDaemonSet is the DaemonSet of the plugins.
	// +optional
	ControlledDaemonSet *corev1.ObjectReference `json:"controlledDaemonSet,omitempty"`

	// DesiredNumberScheduled is the number of nodes that should have a plugin.
	// +optional
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`

	// NumberReady is the number of nodes that have a ready plugin.
	// +optional
	NumberReady int32 `json:"numberReady"`

	// NodeNames are the nodes that have a pod of the plugin.
	// +optional
	// +listType=atomic
	NodeNames []string `json:"nodeNames,omitempty"`

	// Devices is the number of devices on these nodes, as the nodes publish them.
	// +optional
	Devices int64 `json:"devices"`

	// UnhealthyDevices is the number of those that are given to no pod.
	// +optional
	UnhealthyDevices int64 `json:"unhealthyDevices"`

	// Conditions of the object: Accepted, Available, and if they apply ImageReplaced and InitImageUnneeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FpgaDevicePlugin installs the device plugin on nodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fdp
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$')",message="metadata.name: want lower-case letters, digits and dashes, 53 at most"
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

// FpgaDevicePluginList is a list of objects.
// +kubebuilder:object:root=true
type FpgaDevicePluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FpgaDevicePlugin `json:"items"`
}
