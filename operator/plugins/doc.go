// Package plugins installs the device plugin: for each FpgaDevicePlugin it applies the objects of
// the chart accelerator-device-plugin.
//
// [Renderer.Render] is pure. It renders the chart that is embedded in the program, with Helm's own
// code, so Helm and the operator install the same objects. It leaves out hooks, and the templates
// cannot look up objects of the cluster. The chart's schema refuses values that would end their line in
// a template, so a value cannot add fields to an object.
//
// The fields of Intel's operator override the chart's defaults, and spec.values overrides
// both. An image without tag and digest gets the operator's version as its tag. The name of the
// release is the name of the FpgaDevicePlugin.
//
// # State
//
// The controller keeps no state: the FpgaDevicePlugins alone determine what is installed. Each
// reconciliation of an FpgaDevicePlugin applies all its objects again (server-side apply, with
// force), deletes objects that it owns and no longer needs, and writes its status. Objects that it
// does not own are never changed. Of two FpgaDevicePlugins that may match the same node, the younger
// one gets no objects. Kubernetes' garbage collector deletes the objects of a deleted
// FpgaDevicePlugin. Only the leader runs the controller; each replica has the cache.
//
// # What may block
//
// A reconciliation blocks while the API server answers. No other part waits for it.
//
// # Trust
//
// An FpgaDevicePlugin may name an image and directories of the nodes, so a user with the right to
// write one is root on the nodes. The API server lets the operator grant only rights that it has: its role has
// each rule that the chart can grant.
package plugins
