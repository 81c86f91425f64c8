package auditlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// room is what a record may need, in bytes: an import's names 500 versions of up
// to 460 bytes.
const room = 512 << 10

// reserve allocates room behind the end of a file, whose size stays the same. File
// systems that cannot do that, and devices, are left alone.
func reserve(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), room)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESPIPE) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
