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
// # Who owns what
//
// The controller keeps no state: what is installed follows from the FpgaDevicePlugins alone. Each
// reconciliation applies all objects of one of them again (server-side apply, with force), deletes
// those that it owns and that are wanted no more, and writes the status. An object that is there
// and that an FpgaDevicePlugin does not own is left alone. Of two FpgaDevicePlugins that may match
// one node the younger has no objects. The API server's garbage collector deletes the objects of an
// FpgaDevicePlugin that is gone. One replica runs the controller, the leader; each keeps the cache.
//
// # What may block
//
// A reconciliation blocks while the API server answers. Nothing else waits for it.
//
// # Trust
//
// An FpgaDevicePlugin may name an image and directories of the nodes: who can write one is root on
// the nodes. The operator's role holds what the chart can grant, so that the API server lets it
// grant that, and nothing else.
package plugins
