package deviceplugin_test

import (
	"os"
	"testing"

	"b-com.com/accelerator-device-plugin/test/cmdtest"
)

// TestMain runs the tests, or a daemon for a test that needs one in a separate process.
func TestMain(m *testing.M) {
	if dir := os.Getenv(storyIn); dir != "" {
		os.Exit(liveStory(dir))
	}
	if dir := os.Getenv(crashIn); dir != "" {
		os.Exit(liveCrash(dir))
	}
	os.Exit(cmdtest.Run(m))
}
