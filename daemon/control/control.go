package control

import (
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/daemon/view"
)

// Values of [State.API], and of the chart's api value.
const (
	DevicePlugin = "devicePlugin"
	DRA          = "dra"
)

// State is the daemon's view of its devices and settings at one point in time. Its JSON keys are an interface between
// daemons and commands of different versions, so keys can be added but must never be renamed or removed.
type State struct {
	Version      string    `json:"version"` // the daemon's version
	API          string    `json:"api"`     // the Kubernetes API that advertises the devices: DevicePlugin or DRA; "" from older daemons, which only use DevicePlugin
	PID          int       `json:"pid"`
	Started      time.Time `json:"started"`
	Mode         string    `json:"mode"`
	KubeletDir   string    `json:"kubeletDir"`
	Settings     Settings  `json:"settings"`
	HoldersError string    `json:"holdersError"` // why the holders aren't known; "" if they are
	// StateDirError says why the node lock no longer protects the devices, and why cordons may be lost.
	StateDirError string          `json:"stateDirError"` // "" if the state directory is still the same as at startup
	Cordons       []cordon.Cordon `json:"cordons"`
	IdleRules     []string        `json:"idleRules"` // resource rules that don't match any device
	Devices       []view.Row      `json:"devices"`
	Incomplete    bool            `json:"incomplete"` // not all cards have been read yet, shortly after startup
	// Verdict says whether a card needs attention. Its Status is "" if it comes from an older daemon.
	Verdict nodecondition.Verdict `json:"verdict"`
	Cards   []ledger.History      `json:"cards"` // from the ledger, sorted by address; null from older daemons
}

// Settings describes the settings files in effect.
type Settings struct {
	// Hash is the first 12 hex digits of the SHA-256 of the config file followed by the overrides, or "" if there are
	// no files.
	Hash    string    `json:"hash"`
	Applied time.Time `json:"applied"`
	Refused string    `json:"refused"` // the error for the files on disk; "" if they are valid
	Restart []string  `json:"restart"` // flags of changed settings that need a restart
}
