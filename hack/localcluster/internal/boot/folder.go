package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// marker is a file that tells a cluster's folder from anybody else's: only a folder that has it is ever emptied.
const marker = "localcluster"

// claim makes dir the folder of a cluster that is about to boot, and holds it against another boot until unlock.
// What an earlier cluster left there is ended and removed.
func claim(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	release, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		if err := tearDown(dir); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o644); err != nil {
		return nil, err
	}
	return release, nil
}

// lock holds a cluster's folder against whoever else would change what runs in it, until unlock.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another cluster is booting in %s", dir)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// tearDown ends the cluster in dir, and empties the folder.
func tearDown(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not a local cluster's folder, and not empty", dir)
		}
		return err
	}
	state, err := ReadState(dir)
	if err != nil {
		return err
	}
	if state != nil {
		if err := stop(dir, state.Processes); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	// The marker goes last: until then the folder can be recognised.
	for _, e := range entries {
		if e.Name() == marker {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(dir, marker))
}

// Down ends the cluster in dir and removes the folder; it does nothing where there is none.
func Down(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if err := tearDown(dir); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
