# Completion of dcpk for bash. All words come from the command: dcpk ls LIST --plain, dcpk cache ls, dcpk pack ls FILE.
# shellcheck shell=bash
_dcpk_ls() { "$dcpk" ls "$1" --plain 2>/dev/null; }
# The first column of a list.
_dcpk_names() { _dcpk_ls "$1" | cut -f1; }

# Both offer into COMPREPLY what fits the word that stands at the cursor.
_dcpk_words() { # words between white space
    local found
    mapfile -t found < <(compgen -W "$1" -- "$word")
    COMPREPLY+=("${found[@]}")
}
_dcpk_paths() { # compgen's letter: f files, d folders
    local found
    mapfile -t found < <(compgen "-$1" -- "$word")
    COMPREPLY+=("${found[@]}")
    compopt -o filenames 2>/dev/null
}

# The argument that a word's option wants: from the option's row; nothing for a flag and for what is no option.
_dcpk_argument() { # --option, or -o
    awk -F '\t' -v o="$1" '$1 == o || ($3 != "" && $3 == o) { print $4 }' <<<"$options"
}
# An argument KIND:VALUE of dcpk exec: its kind, and the file where there is one.
_dcpk_kind() { # what is typed of it
    case $1 in
    in:* | inout:* | out:*:*)
        word=${1##*:}
        _dcpk_paths f
        ;;
    *:*) ;;
    *)
        word=$1
        _dcpk_words "$("$dcpk" exec --help | awk '/^  [a-z0-9]+:/ { sub(/:.*/, ":"); print $1 }')"
        ;;
    esac
}
_dcpk_value() { # an option's argument, as its row has it; the whole word at the cursor
    local words=${1#'[='} before=
    words=${words%]}
    case $words in
    KIND:*)
        _dcpk_kind "${2#--*=}"
        return
        ;;
    *,...)
        words=${words%,...}
        case $word in *,*) before=${word%,*}, word=${word##*,} ;; esac
        ;;
    esac
    case $words in
    *'|'*) words=${words//|/ } ;;
    MODEL) words=$(_dcpk_names models) ;;
    ARCH) words=$(_dcpk_names arch) ;;
    F | FILE | CASE | DIR)
        case $words in DIR) _dcpk_paths d ;; *) _dcpk_paths f ;; esac
        return
        ;;
    *) return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$word")
}

# The keys of entries, as the lists show them.
_dcpk_entries() { # words of dcpk
    "$dcpk" "$@" 2>/dev/null | awk '$1 ~ /^[0-9a-f]+$/ && length($1) == 32 { print $1 }'
}
# "ls FILE...|extract FILE KEY|KERNEL key=value...": an action by its first word, then what that one takes.
_dcpk_action() { # operands
    local actions takes before
    actions=$(sed 's/[][]//g; s/|\([a-z]\)/\n\1/g' <<<"$1")
    if [ ${#operands[@]} -eq 0 ]; then
        _dcpk_words "$(awk '{ print $1 }' <<<"$actions")"
        return
    fi
    takes=$(awk -v a="${operands[0]}" '$1 == a { $1 = ""; print }' <<<"$actions")
    before=("${operands[@]:1}")
    case "${#before[@]} $takes" in
    *' FILE...'* | "0  FILE"*) _dcpk_paths f ;;
    "0  KEY"*) _dcpk_words "$(_dcpk_entries "$command" ls)" ;;
    "1  FILE KEY"*)
        # A key, or the kernel of a spec.
        _dcpk_words "$(_dcpk_entries "$command" ls "${before[0]}")"
        case $takes in *KERNEL*) _dcpk_words "$(_dcpk_names kernels)" ;; esac
        ;;
    *key=*) _dcpk_words "$(_dcpk_names keys | sed 's/$/=/')" ;;
    esac
}
_dcpk_operand() { # operands of the command
    case $1 in
    [a-z]*'|'* | '['[a-z]*'|'*)
        _dcpk_action "$1"
        return
        ;;
    KERNEL*) [ ${#operands[@]} -gt 0 ] || _dcpk_words "$(_dcpk_names kernels)" ;;
    esac
    case $1 in *key=* | *KEY=*) _dcpk_words "$(_dcpk_names keys | sed 's/$/=/') model= tp=" ;; esac
    case $1 in *CASE* | *FILE*) _dcpk_paths f ;; esac
}

_dcpk() {
    local dcpk=$1 word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} line=${COMP_LINE:0:COMP_POINT}
    local whole=${line##*[[:space:]]} options argument='' operands=() i before words
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        _dcpk_words "$(_dcpk_names commands) help --help --version"
        return
    fi
    if [ "$command" = help ]; then
        [ "$COMP_CWORD" -gt 2 ] || _dcpk_words "$(_dcpk_names commands)"
        return
    fi
    options=$(_dcpk_ls options | awk -F '\t' -v c="$command" '$2 == c')
    # "=" and ":" end a word for readline: what comes around them belongs together. The last one is at the cursor.
    words=()
    for ((i = 2; i <= COMP_CWORD; i++)); do
        case ${COMP_WORDS[i - 1]}/${COMP_WORDS[i]} in
        [=:]/* | */[=:]*) if [ ${#words[@]} -gt 0 ]; then words[-1]+=${COMP_WORDS[i]}; fi ;;
        *) words+=("${COMP_WORDS[i]}") ;;
        esac
    done
    for ((i = 0; i < ${#words[@]} - 1; i++)); do
        before=
        case ${words[i]} in
        -*=*) ;;
        -*) before=$(_dcpk_argument "${words[i]}") ;;
        *) [ -n "$argument" ] || operands+=("${words[i]}") ;;
        esac
        case $before in '['*) argument= ;; *) argument=$before ;; esac
    done
    case $whole in
    --*=*)
        word=${whole#*=}
        _dcpk_value "$(_dcpk_argument "${whole%%=*}")" "${words[*]: -1}"
        ;;
    *) if [ -n "$argument" ]; then
        _dcpk_value "$argument" "${words[*]: -1}"
    else
        case $whole in
        -*) _dcpk_words "$(cut -f1 <<<"$options") --help" ;;
        model=*)
            word=${whole#*=}
            _dcpk_words "$(_dcpk_names models)"
            ;;
        *=*)
            word=${whole#*=}
            _dcpk_words "$(_dcpk_ls keys | awk -F '\t' -v k="${whole%%=*}" '$1 == k && $2 ~ /\|/ { gsub(/\|/, " ", $2); print $2 }')"
            ;;
        *) _dcpk_operand "$(_dcpk_ls commands | awk -F '\t' -v c="$command" '$1 == c { print $2 }')" ;;
        esac
    fi ;;
    esac
    case ${COMPREPLY[0]-} in *[=:]) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _dcpk dcpk
