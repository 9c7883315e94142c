package control

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/internal/view"
)

// State is the daemon's view of its devices and settings at one time. Its JSON keys are an
// interface between daemons and commands of different versions: keys may be added, none is renamed
// or dropped.
type State struct {
	Version      string          `json:"version"` // of the daemon
	PID          int             `json:"pid"`
	Started      time.Time       `json:"started"`
	Mode         string          `json:"mode"`
	KubeletDir   string          `json:"kubeletDir"`
	Settings     Settings        `json:"settings"`
	HoldersError string          `json:"holdersError"` // why the holders are not known; "": they are
	Cordons      []cordon.Cordon `json:"cordons"`
	IdleRules    []string        `json:"idleRules"` // rules of resources that match no device
	Devices      []view.Row      `json:"devices"`
	Incomplete   bool            `json:"incomplete"` // soon after the start: cards are missing that are not read yet
}

// Settings are the files of settings that are in force.
type Settings struct {
	// Hash is the first 12 hex digits of the SHA-256 of the config file followed by the overrides;
	// "" without files.
	Hash    string    `json:"hash"`
	Applied time.Time `json:"applied"`
	Refused string    `json:"refused"` // the error of the files on disk; "": they are in force
	Restart []string  `json:"restart"` // flags whose change in the file needs a restart
}
