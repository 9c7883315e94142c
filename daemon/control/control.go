package control

import (
	"time"

	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/daemon/nodecondition"
	"b-com.com/accelerator-device-plugin/daemon/view"
)

// Values of [State.API], and of the value api of the chart.
const (
	DevicePlugin = "devicePlugin"
	DRA          = "dra"
)

// State is the daemon's view of its devices and settings at one time. Its JSON keys are an
// interface between daemons and commands of different versions: keys may be added, but never renamed
// or removed.
type State struct {
	Version      string    `json:"version"` // of the daemon
	API          string    `json:"api"`     // the Kubernetes API that advertises the devices: DevicePlugin or DRA; "" from older daemons, which only use DevicePlugin
	PID          int       `json:"pid"`
	Started      time.Time `json:"started"`
	Mode         string    `json:"mode"`
	KubeletDir   string    `json:"kubeletDir"`
	Settings     Settings  `json:"settings"`
	HoldersError string    `json:"holdersError"` // the reason why holders are not known; "": they are known
	// StateDirError is the reason why the lock of the node no longer protects the devices, and why cordons may be lost.
	StateDirError string          `json:"stateDirError"` // "": the state directory is as it was at the start
	Cordons       []cordon.Cordon `json:"cordons"`
	IdleRules     []string        `json:"idleRules"` // rules for resources that match no device
	Devices       []view.Row      `json:"devices"`
	Incomplete    bool            `json:"incomplete"` // soon after the start: not all cards have been read yet
	// Verdict says whether a card needs attention. Its Status is "" from older daemons.
	Verdict nodecondition.Verdict `json:"verdict"`
	Cards   []ledger.History      `json:"cards"` // of the ledger, sorted by address; null from older daemons
}

// Settings describes the settings files that are in force.
type Settings struct {
	// Hash is the first 12 hex digits of the SHA-256 of the config file followed by the overrides;
	// "" without files.
	Hash    string    `json:"hash"`
	Applied time.Time `json:"applied"`
	Refused string    `json:"refused"` // the error of the files on disk; "": they are valid
	Restart []string  `json:"restart"` // flags of changed settings that need a restart
}
