// Package metrics defines the operator's own Prometheus metrics, in addition to controller-runtime's. The table in
// docs/mappings.md is generated from a scrape (`go test ./metrics -update`).
//
// A scrape counts the mappings and FpgaDevicePlugins in the cache. It waits up to a second for the cache to be filled.
// The methods of a nil *Metrics do nothing. All methods are safe for concurrent use.
package metrics
