// Package metrics defines the operator's own Prometheus metrics. The others come from controller-runtime. The table in
// docs/mappings.md is generated from a scrape (`go test ./metrics -update`).
//
// Mappings and FpgaDevicePlugins are counted in the cache at the time of a scrape. The scrape waits for up to a second
// for the cache to be filled. The methods of a nil *Metrics do nothing. All methods are safe for concurrent use.
package metrics
