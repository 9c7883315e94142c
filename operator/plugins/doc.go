// Package plugins installs the device plugin: for each FpgaDevicePlugin it applies the objects of the chart
// accelerator-device-plugin.
//
// [Renderer.Render] is pure. It renders the chart that is embedded in the program with Helm's own code, so Helm and the
// operator install the same objects. It leaves out hooks, and templates cannot look up objects of the cluster. The
// chart's schema rejects values with characters that would end the line in a template, so a value can't add fields to
// an object.
//
// The fields of Intel's operator override the chart's defaults, and spec.values overrides both. An image without a tag
// and a digest gets the operator's version as its tag. The release has the same name as the FpgaDevicePlugin.
//
// # State
//
// The controller keeps no state: the FpgaDevicePlugins alone determine what is installed. Each reconciliation of an
// FpgaDevicePlugin applies all its objects again (with a forced server-side apply), deletes objects that it owns and no
// longer needs, and writes its status. Objects that it does not own are never changed. If two FpgaDevicePlugins may
// match the same node, the younger one gets no objects. When an FpgaDevicePlugin is deleted, Kubernetes' garbage
// collector deletes its objects. Only the leader runs the controller, but every replica has the cache.
//
// # What may block
//
// A reconciliation blocks while the API server answers. No other part waits for it.
//
// # Trust
//
// An FpgaDevicePlugin can specify an image and host directories, so anyone who can write one is effectively root on the
// nodes. The API server lets the operator grant only permissions that it has itself. So its role contains each rule
// that the chart can grant.
package plugins
