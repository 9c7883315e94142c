// Package metrics has the metrics of the operator for Prometheus, beside those of
// controller-runtime. Each is declared here, once. A scrape gives the table of
// docs/mappings.md (`go test ./metrics -update`).
//
// Mappings and FpgaDevicePlugins are counted in the cache at the time of a scrape, which waits at
// most a second until the cache has been filled. The methods of a nil *Metrics do nothing.
// All methods are safe for concurrent use.
package metrics
