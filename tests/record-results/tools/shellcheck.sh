debian shellcheck shellcheck
check() { record shellcheck "$1" shellcheck "${@:2}"; }
sample; printf '#!/bin/sh\necho "ok"\n' >a.sh; check clean a.sh
sample; printf '#!/bin/sh\necho $1\n' >a.sh; check one a.sh
sample
cat >a.sh <<'SH'
#!/bin/sh
for f in $(ls *.txt); do
  rm -rf $f/
  [[ $f == x ]] && echo `date`
done
cd nowhere
unused=1
SH
printf '#!/bin/bash\nif [ $1 = x ]; then\n  echo "größe $2\nfi\n' >b.sh
check many a.sh b.sh
check colours --color=always a.sh b.sh
check gcc_format -f gcc a.sh b.sh
check config_error --nonsense a.sh
check missing_file none.sh
