// Package helm has the daemon's chart, for the operator, which renders it. The package keeps no
// state, and nothing in it blocks.
package helm

import "embed"

// DevicePlugin contains the chart in the directory accelerator-device-plugin.
//
// The prefix all: includes _helpers.tpl. Without it, names that begin with an underscore are left out.
//
//go:embed all:accelerator-device-plugin
var DevicePlugin embed.FS
