def kernel(args, lo, hi):
    # multiply: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    c4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    x1 = buffer(args, 7, float64)
    x2 = buffer(args, 8, float64)
    b9 = integer(args, 9)
    c10 = integer(args, 10)
    b11 = integer(args, 11)
    b12 = integer(args, 12)
    b13 = integer(args, 13)
    b14 = integer(args, 14)
    c15 = integer(args, 15)
    s16 = integer(args, 16)
    b17 = integer(args, 17)
    c18 = integer(args, 18)
    s19 = integer(args, 19)
    v5 = float64(0.0)
    v7 = x1[0]
    v11 = float64(2.0)
    v36 = int64(0)
    v40 = float64(0.0)
    v51 = x1[0]
    v55 = float64(2.0)
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                v0 = x0[i0 * s3 + i1 + c4]
                v1 = x0[i0 * s3 + i1 + c5]
                v2 = v0 + v1
                v3 = x0[i0 * s3 + i1 + c6]
                v4 = v2 + v3
                v6 = v4 + v5
                v8 = x0[i0 * s3 + i1]
                v9 = v7 * v8
                v10 = v6 - v9
                v12 = v10 * v11
                x2[i0 * s3 + i1] = v12
            for i1 in range(max(first, b9), min(last, b11)):
                v13 = x0[i0 * s3 + i1 + c4]
                v14 = x0[i0 * s3 + i1 + c5]
                v15 = v13 + v14
                v16 = x0[i0 * s3 + i1 + c6]
                v17 = v15 + v16
                v18 = x0[i0 * s3 + i1 + c10]
                v19 = v17 + v18
                v20 = x0[i0 * s3 + i1]
                v21 = v7 * v20
                v22 = v19 - v21
                v23 = v22 * v11
                x2[i0 * s3 + i1] = v23
            for i1 in range(max(first, b11), last):
                v24 = x0[i0 * s3 + i1 + c4]
                v25 = x0[i0 * s3 + i1 + c5]
                v26 = v24 + v25
                v27 = v26 + v5
                v28 = x0[i0 * s3 + i1 + c10]
                v29 = v27 + v28
                v30 = x0[i0 * s3 + i1]
                v31 = v7 * v30
                v32 = v29 - v31
                v33 = v32 * v11
                x2[i0 * s3 + i1] = v33
        else:
            v34 = int64(i0)
            v35 = (b14 <= v34) & (v34 < b13)
            v37 = int64(i0 + c15)
            v38 = select(v35, v37, v36)
            v42 = (b12 <= v34) & (v34 < b17)
            v43 = int64(i0 + c18)
            v44 = select(v42, v43, v36)
            for i1 in range(first, min(last, b9)):
                v39 = x0[v38 * s16 + i1]
                v41 = select(v35, v39, v40)
                v45 = x0[v44 * s19 + i1]
                v46 = select(v42, v45, v40)
                v47 = v41 + v46
                v48 = x0[i0 * s3 + i1 + c6]
                v49 = v47 + v48
                v50 = v49 + v40
                v52 = x0[i0 * s3 + i1]
                v53 = v51 * v52
                v54 = v50 - v53
                v56 = v54 * v55
                x2[i0 * s3 + i1] = v56
            for i1 in range(max(first, b9), min(last, b11)):
                v57 = x0[v38 * s16 + i1]
                v58 = select(v35, v57, v40)
                v59 = x0[v44 * s19 + i1]
                v60 = select(v42, v59, v40)
                v61 = v58 + v60
                v62 = x0[i0 * s3 + i1 + c6]
                v63 = v61 + v62
                v64 = x0[i0 * s3 + i1 + c10]
                v65 = v63 + v64
                v66 = x0[i0 * s3 + i1]
                v67 = v51 * v66
                v68 = v65 - v67
                v69 = v68 * v55
                x2[i0 * s3 + i1] = v69
            for i1 in range(max(first, b11), last):
                v70 = x0[v38 * s16 + i1]
                v71 = select(v35, v70, v40)
                v72 = x0[v44 * s19 + i1]
                v73 = select(v42, v72, v40)
                v74 = v71 + v73
                v75 = v74 + v40
                v76 = x0[i0 * s3 + i1 + c10]
                v77 = v75 + v76
                v78 = x0[i0 * s3 + i1]
                v79 = v51 * v78
                v80 = v77 - v79
                v81 = v80 * v55
                x2[i0 * s3 + i1] = v81


def kernel(args, lo, hi):
    # add_slice: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    b2 = integer(args, 2)
    b3 = integer(args, 3)
    c4 = integer(args, 4)
    b5 = integer(args, 5)
    c6 = integer(args, 6)
    b7 = integer(args, 7)
    x0 = buffer(args, 8, float64)
    s9 = integer(args, 9)
    c10 = integer(args, 10)
    c11 = integer(args, 11)
    c12 = integer(args, 12)
    x1 = buffer(args, 13, float64)
    s14 = integer(args, 14)
    c15 = integer(args, 15)
    c16 = integer(args, 16)
    c17 = integer(args, 17)
    c18 = integer(args, 18)
    c19 = integer(args, 19)
    c20 = integer(args, 20)
    c21 = integer(args, 21)
    b22 = integer(args, 22)
    b23 = integer(args, 23)
    c24 = integer(args, 24)
    b25 = integer(args, 25)
    b26 = integer(args, 26)
    c27 = integer(args, 27)
    s28 = integer(args, 28)
    s29 = integer(args, 29)
    s30 = integer(args, 30)
    c31 = integer(args, 31)
    c32 = integer(args, 32)
    c33 = integer(args, 33)
    v2 = int64(0)
    v11 = float64(0.0)
    v51 = int64(0)
    v73 = float64(0.0)
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b22 <= i0 < b23:
            for i1 in range(first, min(last, b5)):
                v0 = int64(i1)
                v1 = (b2 <= v0) & (v0 < b3)
                v3 = int64(i1 + c4)
                v4 = select(v1, v3, v2)
                v5 = (b5 <= v0) & (v0 < n1)
                v6 = int64(i1 + c6)
                v7 = select(v5, v6, v2)
                v8 = (0 <= v0) & (v0 < b7)
                v9 = select(v8, v0, v2)
                v10 = x0[i0 * s9 + v9 + c10]
                v12 = select(v8, v10, v11)
                v13 = x0[i0 * s9 + v7 + c11]
                v14 = v12 + v13
                v15 = select(v5, v14, v12)
                v16 = x0[i0 * s9 + v4]
                v17 = v15 + v16
                v18 = select(v1, v17, v15)
                v19 = x0[i0 * s9 + v4 + c12]
                v20 = v18 + v19
                v21 = select(v1, v20, v18)
                x1[i0 * s14 + i1] = v21
            for i1 in range(max(first, b5), min(last, b7)):
                v22 = x0[i0 * s9 + i1 + c15]
                v23 = x0[i0 * s9 + i1 + c16]
                v24 = v22 + v23
                v25 = x0[i0 * s9 + i1 + c17]
                v26 = v24 + v25
                v27 = x0[i0 * s9 + i1 + c18]
                v28 = v26 + v27
                x1[i0 * s14 + i1] = v28
            for i1 in range(max(first, b7), last):
                v29 = int64(i1)
                v30 = (b2 <= v29) & (v29 < b3)
                v31 = int64(i1 + c4)
                v32 = select(v30, v31, v2)
                v33 = (b5 <= v29) & (v29 < n1)
                v34 = int64(i1 + c6)
                v35 = select(v33, v34, v2)
                v36 = (0 <= v29) & (v29 < b7)
                v37 = select(v36, v29, v2)
                v38 = x0[i0 * s9 + v37 + c19]
                v39 = select(v36, v38, v11)
                v40 = x0[i0 * s9 + v35 + c20]
                v41 = v39 + v40
                v42 = select(v33, v41, v39)
                v43 = x0[i0 * s9 + v32]
                v44 = v42 + v43
                v45 = select(v30, v44, v42)
                v46 = x0[i0 * s9 + v32 + c21]
                v47 = v45 + v46
                v48 = select(v30, v47, v45)
                x1[i0 * s14 + i1] = v48
        else:
            v49 = int64(i0)
            v50 = (b22 <= v49) & (v49 < n0)
            v52 = int64(i0 + c24)
            v53 = select(v50, v52, v51)
            v59 = (0 <= v49) & (v49 < b23)
            v60 = select(v59, v49, v51)
            v62 = (b25 <= v49) & (v49 < b26)
            v63 = int64(i0 + c27)
            v64 = select(v62, v63, v51)
            for i1 in range(first, min(last, b5)):
                v54 = int64(i1)
                v55 = (b2 <= v54) & (v54 < b3)
                v56 = int64(i1 + c4)
                v57 = select(v55, v56, v51)
                v58 = v50 & v55
                v61 = v59 & v55
                v65 = (b5 <= v54) & (v54 < n1)
                v66 = int64(i1 + c6)
                v67 = select(v65, v66, v51)
                v68 = v62 & v65
                v69 = (0 <= v54) & (v54 < b7)
                v70 = select(v69, v54, v51)
                v71 = v62 & v69
                v72 = x0[v64 * s28 + v70]
                v74 = select(v71, v72, v73)
                v75 = x0[v64 * s28 + v67]
                v76 = v74 + v75
                v77 = select(v68, v76, v74)
                v78 = x0[v60 * s29 + v57]
                v79 = v77 + v78
                v80 = select(v61, v79, v77)
                v81 = x0[v53 * s30 + v57]
                v82 = v80 + v81
                v83 = select(v58, v82, v80)
                x1[i0 * s14 + i1] = v83
            for i1 in range(max(first, b5), min(last, b7)):
                v84 = x0[v64 * s28 + i1]
                v85 = select(v62, v84, v73)
                v86 = x0[v64 * s28 + i1 + c31]
                v87 = v85 + v86
                v88 = select(v62, v87, v85)
                v89 = x0[v60 * s29 + i1 + c32]
                v90 = v88 + v89
                v91 = select(v59, v90, v88)
                v92 = x0[v53 * s30 + i1 + c33]
                v93 = v91 + v92
                v94 = select(v50, v93, v91)
                x1[i0 * s14 + i1] = v94
            for i1 in range(max(first, b7), last):
                v95 = int64(i1)
                v96 = (b2 <= v95) & (v95 < b3)
                v97 = int64(i1 + c4)
                v98 = select(v96, v97, v51)
                v99 = v50 & v96
                v100 = v59 & v96
                v101 = (b5 <= v95) & (v95 < n1)
                v102 = int64(i1 + c6)
                v103 = select(v101, v102, v51)
                v104 = v62 & v101
                v105 = (0 <= v95) & (v95 < b7)
                v106 = select(v105, v95, v51)
                v107 = v62 & v105
                v108 = x0[v64 * s28 + v106]
                v109 = select(v107, v108, v73)
                v110 = x0[v64 * s28 + v103]
                v111 = v109 + v110
                v112 = select(v104, v111, v109)
                v113 = x0[v60 * s29 + v98]
                v114 = v112 + v113
                v115 = select(v100, v114, v112)
                v116 = x0[v53 * s30 + v98]
                v117 = v115 + v116
                v118 = select(v99, v117, v115)
                x1[i0 * s14 + i1] = v118


def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    s6 = integer(args, 6)
    c7 = integer(args, 7)
    x3 = buffer(args, 8, float64)
    v2 = x1[0]
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        for i1 in range(first, last):
            v0 = x0[i0 * s3 + i1]
            v1 = -v0
            v3 = v1 * v2
            v4 = x2[i0 * s6 + i1 + c7]
            v5 = v3 + v4
            x3[i0 * s3 + i1] = v5
