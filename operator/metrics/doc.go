// Package metrics has the metrics of the operator for Prometheus, beside those of
// controller-runtime. Each is declared here, once; the table of docs/mappings.md is written from
// that (`go test ./metrics -update`).
//
// Mappings and FpgaDevicePlugins are counted in the cache at the time of a scrape, which waits at
// most a second until the cache has been filled. A nil *Metrics counts nothing. All methods are safe
// for concurrent use.
package metrics
