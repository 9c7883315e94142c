package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the types' API group and version.
var GroupVersion = schema.GroupVersion{Group: "fpga.intel.com", Version: "v2"}

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AcceleratorFunction{}, &AcceleratorFunctionList{}, &FpgaRegion{}, &FpgaRegionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// The modes of an AcceleratorFunction.
const (
	ModeAF     = "af"     // ports that have the AFU
	ModeRegion = "region" // cards with the interface, which are programmed with the AFU before the container starts
)

// AcceleratorFunctionSpec describes the function that a name stands for.
type AcceleratorFunctionSpec struct {
	// ID of the AFU: 32 hexadecimal digits. In region mode, it can also be the hash of an AOCX file: 8 to 40 digits.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8,40}$`
	AfuID string `json:"afuId"`

	// ID of the interface of the cards: 32 hexadecimal digits.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8,32}$`
	InterfaceID string `json:"interfaceId"`

	// Mode of the nodes on which the pod can run: af (cards that already have the AFU) or region
	// (cards that are programmed with the AFU before the container starts).
	// +kubebuilder:validation:Pattern=`^(af|region)$`
	Mode string `json:"mode"`
}

// FpgaRegionSpec describes the cards that a name stands for.
type FpgaRegionSpec struct {
	// ID of the interface of the cards: 32 hexadecimal digits.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8,32}$`
	InterfaceID string `json:"interfaceId"`
}

// ConditionReady is the type of the condition that reports whether pods can request the name.
const ConditionReady = "Ready"

// MappingStatus shows the resource that a name stands for.
type MappingStatus struct {
	// Resource that replaces the name in pods. If it is empty, the condition Ready gives the reason.
	// +optional
	Resource string `json:"resource,omitempty"`

	// Conditions of the object. Ready is true if pods can request the name.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AcceleratorFunction defines a name for a function in the object's namespace. Pods in this namespace request it as
// fpga.intel.com/NAME.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=af
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="AFU",type=string,JSONPath=`.spec.afuId`
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.spec.interfaceId`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Resource",type=string,priority=1,JSONPath=`.status.resource`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type AcceleratorFunction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AcceleratorFunctionSpec `json:"spec"`
	Status MappingStatus           `json:"status,omitzero"`
}

// AcceleratorFunctionList is a list of functions.
// +kubebuilder:object:root=true
type AcceleratorFunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AcceleratorFunction `json:"items"`
}

// FpgaRegion defines a name for the cards with a given interface in the object's namespace. It is for pods that program
// the cards themselves. Pods in this namespace request it as fpga.intel.com/NAME.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fpga
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.spec.interfaceId`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Resource",type=string,priority=1,JSONPath=`.status.resource`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type FpgaRegion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FpgaRegionSpec `json:"spec"`
	Status MappingStatus  `json:"status,omitzero"`
}

// FpgaRegionList is a list of regions.
// +kubebuilder:object:root=true
type FpgaRegionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FpgaRegion `json:"items"`
}
