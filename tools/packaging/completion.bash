# Completion of dcpk for bash. All words come from the command: dcpk ls LIST --plain.
# shellcheck shell=bash
_dcpk() {
    local dcpk=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} line command operands argument words=
    COMPREPLY=()
    line=${COMP_LINE:0:COMP_POINT}
    # "=" ends a word for readline: put "key = val" together again.
    local whole=${line##*[[:space:]]}
    if [ "$COMP_CWORD" -le 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$dcpk" ls commands --plain 2>/dev/null | cut -f1) help --help --version" -- "$word")
        return
    fi
    command=${COMP_WORDS[1]}
    operands=$("$dcpk" ls commands --plain 2>/dev/null | awk -F '\t' -v c="$command" '$1 == c { print $2 }')
    argument=$("$dcpk" ls options --plain 2>/dev/null | awk -F '\t' -v c="$command" -v o="$before" \
        '$2 == c && ($1 == o || $3 == o) && $4 !~ /^\[/ { print $4 }')
    case $whole in
    -*) words="$("$dcpk" ls options --plain 2>/dev/null | awk -F '\t' -v c="$command" '$2 == c { print $1 }') --help" ;;
    model=*) words=$("$dcpk" ls models --plain 2>/dev/null | cut -f1) word=${whole#*=} ;;
    *=*)
        word=${whole#*=}
        words=$("$dcpk" ls keys --plain 2>/dev/null | awk -F '\t' -v k="${whole%%=*}" \
            '$1 == k && $2 ~ /\|/ { gsub(/\|/, " ", $2); print $2 }')
        ;;
    *)
        case $argument in
        *'|'*) words=${argument//|/ } ;;
        F* | DIR* | OUT* | CASE* | PACK*)
            compopt -o default 2>/dev/null
            return
            ;;
        ?*) return ;;
        *)
            case $operands in
            *KERNEL*) [ "$COMP_CWORD" -gt 2 ] || words=$("$dcpk" ls kernels --plain 2>/dev/null | cut -f1) ;;
            *'|'*)
                # "[a|b]" and "path|extract KEY ...|clear": the first word of each.
                [ "$COMP_CWORD" -gt 2 ] || words=$(tr -d '[]' <<<"$operands" | tr '|' '\n' | awk '{ print $1 }' | grep -v '^-')
                ;;
            esac
            case $operands in
            *key=*)
                words="$words $("$dcpk" ls keys --plain 2>/dev/null | awk -F '\t' '{ print $1 "=" }') model= tp="
                ;;
            *CASE* | *FILE* | *PACK*) compopt -o default 2>/dev/null ;;
            esac
            ;;
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    case ${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _dcpk dcpk
