// Package helm has the charts, for programs that render them. It keeps no state, and nothing in
// it blocks.
package helm

import "embed"

// DevicePlugin has the chart of the daemon, in the directory accelerator-device-plugin.
//
// Without all: the files whose names begin with an underscore would be left out.
//
//go:embed all:accelerator-device-plugin
var DevicePlugin embed.FS
