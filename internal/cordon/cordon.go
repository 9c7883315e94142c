package cordon

import "time"

// Cordon takes a card, or a port of it, out of service.
type Cordon struct {
	Device string    `json:"device" yaml:"device"` // as in exclude: BB:DD.F or DDDD:BB:DD.F, ports with -pN
	By     string    `json:"by" yaml:"by"`
	Why    string    `json:"why" yaml:"why"`
	Since  time.Time `json:"since" yaml:"since"`
	Until  time.Time `json:"until,omitzero" yaml:"until,omitempty"` // zero: until it is uncordoned
}
