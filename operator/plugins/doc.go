// Package plugins installs the device plugin: an FpgaDevicePlugin in, the objects of the chart
// accelerator-device-plugin out.
//
// [Renderer.Render] is pure. It renders the chart that is embedded in the program, with the same
// code as Helm, so there is one source of what is installed. Hooks are left out, and the templates
// see no cluster. The chart's schema refuses texts that would end the line that they are in: the
// text of a value is never structure, and never run.
//
// The order of precedence, from the last to the first: the chart's defaults, the fields that
// Intel's operator knows, spec.values. The operator sets the image's tag and the name of the
// release, which is that of the object.
//
// # Trust
//
// An FpgaDevicePlugin may name an image and directories of the nodes: who can write one is root on
// the nodes. The operator's role holds what the chart can grant, so that the API server lets it
// grant that, and nothing else.
package plugins
