package postgres

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom the server runs as.
type account struct {
	// credential is nil where the server runs as the caller.
	credential *syscall.Credential
}

// serverAccount returns the caller's account or, when the caller is root, that of the user postgres, which Debian's
// package makes, else of nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s has the id %q: %w", name, found.Uid, err)
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s has the group %q: %w", name, found.Gid, err)
		}
		return account{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// own gives a file or directory to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// attributes puts a process into a process group of its own, so that a terminal's Ctrl-C does not reach it before the
// caller has decided what to do, and under the account.
func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.credential}
}
