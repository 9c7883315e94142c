// Package deviceplugin connects package daemon to package server. Together they are the complete device plugin daemon,
// except for the command line. The package's tests run the whole daemon against a simulated node and a simulated
// kubelet; everything else is real.
package deviceplugin
