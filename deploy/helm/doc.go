// Package helm embeds the daemon's Helm chart, which the operator renders. The package has no state, and nothing in it
// blocks.
package helm

import "embed"

// DevicePlugin contains the chart in the directory accelerator-device-plugin.
//
// The all: prefix includes _helpers.tpl. Without the prefix, files whose names begin with an underscore are left out.
//
//go:embed all:accelerator-device-plugin
var DevicePlugin embed.FS
