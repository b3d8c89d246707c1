"$HERE"/regions && id -u
