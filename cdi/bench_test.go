package cdi_test

import (
	"strconv"
	"testing"
)

// The cost of Write if the file has the right content.
func BenchmarkWriteUnchanged(b *testing.B) {
	for _, n := range []int{8, 32, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := open(b, b.TempDir())
			devices := many(n, "dfl-port.0")
			write(b, s, devices...)
			b.ReportAllocs()
			for b.Loop() {
				write(b, s, devices...)
			}
		})
	}
}

// The cost of Write if a device has another node.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{8, 32, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := open(b, b.TempDir())
			lists := [2]string{"dfl-port.0", "dfl-port.1"}
			for i := 0; b.Loop(); i++ {
				write(b, s, many(n, lists[i%2])...)
			}
		})
	}
}
