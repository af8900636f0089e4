# Sourced: artifacts of tests that Maven fetches once. Without Maven or a network a script says so and succeeds.

not_run() {
    echo "not run: $1"
    exit 0
}

# fetch GROUP:ARTIFACT:VERSION FOLDER [OPTION...]: its jar and those that it needs into the folder; options are of Maven's
# dependency:copy-dependencies.
fetch() {
    local coordinates=$1 folder=$2
    shift 2
    command -v mvn >/dev/null || not_run "Maven (mvn) is not installed"
    [ ! -f "$folder/.ready" ] || return 0
    echo "Fetching $coordinates ..."
    mkdir -p "$folder"
    local group artifact version
    IFS=: read -r group artifact version <<<"$coordinates"
    cat >"$folder/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>anabranch</groupId>
  <artifactId>tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>$group</groupId>
      <artifactId>$artifact</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
</project>
POM
    mvn --quiet --batch-mode --file "$folder/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/$folder" "$@" >"$folder/log" 2>&1 ||
        not_run "Maven could not fetch $coordinates: $(grep -m1 ERROR "$folder/log" || true)"
    touch "$folder/.ready"
}
