package notify_test

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/notify"
)

func TestLimit(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string // start of the text
	}{
		{"watches", syscall.ENOSPC, "fs.inotify.max_user_watches is used up: "},
		{"instances", syscall.EMFILE, "fs.inotify.max_user_instances (or the limit of open files) is used up: "},
		{"another", io.EOF, "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := notify.Limit(tc.err)
			if !errors.Is(got, tc.err) || !strings.HasPrefix(got.Error(), tc.want) {
				t.Errorf("got %q, want it to begin with %q and to be %v", got, tc.want, tc.err)
			}
		})
	}
}
