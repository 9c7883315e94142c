package deviceplugin_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// crashIn is the environment variable that turns the test binary into a daemon that panics.
const crashIn = "ACCELERATOR_TEST_CRASH"

// liveCrash is a daemon with a goroutine that logs and then panics.
func liveCrash(dir string) (exitCode int) {
	cfg := config.Defaults()
	cfg.Mode, cfg.SysfsRoot, cfg.DevRoot, cfg.KubeletDir, cfg.HTTPAddress, cfg.Socket = offer.Pool, dir, dir, dir, "", ""
	cfg.StateDir = ""
	counts := metrics.New("test")
	log := daemon.OpenLog(cfg, os.Stderr, counts)
	defer log.Close()
	s := deviceplugin.New("test", cfg, log.Logger, counts, func(*inventory.Config, *server.Config) {
		for i := range 100 {
			log.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(strconv.Itoa(i)), logevent.Lasted(0))
		}
		panic("at work")
	})
	_ = s.Live(context.Background(), log)
	return 0
}

// A panic ends the daemon. All lines that were logged before are in the log.
func TestLinesBeforeAPanicAreWritten(t *testing.T) {
	t.Parallel()
	for range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashIn+"="+cmdtest.ShortDir(t))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // its exit code is checked below
		log, crash, panicked := strings.Cut(stderr.String(), "panic: at work [recovered, repanicked]\n")
		if cmd.ProcessState.ExitCode() != 2 || !panicked || !strings.Contains(crash, "liveCrash") {
			t.Fatalf("%v, want a panic and where it was\n%s", cmd.ProcessState, stderr.String())
		}
		n := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, fmt.Sprintf(`"pci":"%d"`, n)) {
				n++
			}
		}
		compare.Equal(t, "lines before the panic", 100, n)
	}
}
