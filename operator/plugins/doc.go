// Package plugins installs the device plugin: for each FpgaDevicePlugin, it applies the objects in the chart
// accelerator-device-plugin.
//
// [Renderer.Render] is pure. It uses Helm's own code to render the chart, which is embedded in the program, so Helm and
// the operator install the same objects. It leaves out hooks, and templates can't look up objects in the cluster. The
// chart's schema rejects values with characters that would end a line in a template, so a value can't add fields to an
// object.
//
// The fields that Intel's operator also has override the chart's defaults, and spec.values overrides both. An image
// that has neither a tag nor a digest gets the operator's version as its tag. The release has the same name as the
// FpgaDevicePlugin.
//
// # State
//
// The controller keeps no state: the FpgaDevicePlugins alone determine what is installed. Reconciling an
// FpgaDevicePlugin applies all of its objects (with a forced server-side apply), deletes objects that it owns but no
// longer needs, and writes its status. Objects that it doesn't own are never changed. If two FpgaDevicePlugins can
// match the same node, the younger one's objects aren't applied. When an FpgaDevicePlugin is deleted, Kubernetes'
// garbage collector deletes its objects. Only the leader runs the controller, but every replica has the cache.
//
// # What may block
//
// A reconciliation blocks while it waits for the API server. Nothing else waits for a reconciliation.
//
// # Trust
//
// An FpgaDevicePlugin can specify an image and host directories, so anyone who can write one effectively has root on
// the nodes. The API server lets the operator grant only permissions that it has itself, so the operator's role
// contains every rule that the chart can grant.
package plugins
